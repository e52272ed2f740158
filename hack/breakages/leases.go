package main

func ofLeases() []breakage {
	return []breakage{
		{
			name: "takes-at-once", file: hold + "acquire.go", test: leases,
			does: "the Lease is taken without waiting for silence",
			from: "return held - silent, nil", to: "return 0*(held - silent), nil",
		},
		{
			name: "rival-unnoticed", file: hold + "process.go", test: leases,
			does: "a leader takes the holder of others for its own",
			from: `return holder != "" && holder != p.holder &&`,
			to:   `return holder != "" && holder != p.holder && p.leading.IsZero() &&`,
		},
		{
			name: "holders-clock", file: hold + "process.go", test: leases,
			does: "silence is measured by the holder's clock",
			from: "looked: now, changed: now,", to: "looked: now, changed: renewedAt(lease),",
		},
		{
			name: "renews-blindly", file: hold + "hold.go", test: leases,
			does: "a Lease that changed is not looked at before it is renewed",
			from: "	if err == nil {\n		err = h.decide(ctx, lease)\n	}\n" +
				"	if err != nil {\n		return written{}, err",
			to: "	if err != nil {\n		return written{}, err",
		},
		{
			name: "late-renewal-counts", file: hold + "hold.go", test: leases,
			does: "the right lasts from the answer of a renewal, not from the request",
			from: "left := by.lasts - h.process.options.Clock.Since(by.asked)",
			to:   "left := by.lasts + 0*h.process.options.Clock.Since(by.asked)",
			missed: "the right ends a second late at most, and only a copy that began just then takes the Lease in " +
				"this second",
		},
		{
			name: "rival-for-15s", file: hold + "acquire.go", test: leases,
			does:   "a source that knows of a rival waits for 15 s only",
			from:   "	if is.rival && silent",
			to:     "	if false && is.rival && silent",
			missed: "it decides which source acts, not how many",
		},
	}
}
