package main

func ofFencing() []breakage {
	return []breakage{
		{
			name: "no-new-leader-allowed-for", file: feedback + "fenced.go", test: fenced,
			does: "the source does not wait for a new leader of the target's managers",
			from: "silent > timeouts.FenceHoldsAfterRestart(", to: "silent > timeouts.FenceHolds(",
		},
		{
			name: "sent-renewals-forgotten", file: hold + "process.go", test: fenced,
			does: "silence counts from when the source's leader began, not from the last renewal",
			from: "[]time.Time{p.sent[target], p.sentTo[cluster]}", to: "[]time.Time{}",
		},
		{
			name: "earlier-leader-forgotten", file: hold + "process.go", test: fenced,
			does: "a new leader of the source knows of no renewal that an earlier one sent",
			from: "	last := p.leading\n", to: "	last := p.leading.Add(-time.Hour)\n",
		},
		{
			name: "silence-of-the-blind", file: fence + "observer.go", test: fenced,
			does: "a manager that saw nothing counts its sources as silent",
			from: "if o.own == \"\" || now.Sub(o.proved) > timeouts.FenceBlind {", to: "if o.own == \"\" {",
		},
		{
			name: "silence-at-once", file: fence + "observer.go", test: fenced,
			does: "a manager that sees again counts its sources as silent at once",
			from: "sees := o.proved.Sub(o.seeing) >= timeouts.FenceLeast", to: "sees := o.proved.Sub(o.seeing) >= 0",
		},
		{
			name: "their-clock-believed", file: fence + "observer.go", test: fenced,
			does: "a target takes the time that a source wrote for its own",
			from: "stamp: stampOf(lease), changed: now}",
			to: "stamp: stampOf(lease), changed: func() time.Time {\n" +
				"\t\tif lease.Spec.RenewTime == nil {\n\t\t\treturn now\n\t\t}\n" +
				"\t\treturn lease.Spec.RenewTime.Time\n\t}()}",
		},
		{
			name: "fenced-is-made-again", file: chaperon + "fence.go", test: fenced,
			does: "a delegate that was fenced is made again when the source is heard",
			from: "return lost != nil && lost.Reason == v1alpha1.ReasonDelegateFenced",
			to:   "return false && lost != nil",
		},
		{
			name: "never-woken", file: chaperon + "fence.go", test: fenced,
			does: "a delegate is not fenced before something else happens to it",
			from: "return fence > 0 && silent >= fence && !fenced(chaperon)",
			to:   "return false && fence > 0 && silent >= fence && !fenced(chaperon)",
		},
		{
			name: "never-fenced", file: chaperon + "fence.go", test: fenced, clusters: true, loss: true,
			does: "a delegate is never fenced", rule: endsFirst,
			from: "return silent >= fence, nil", to: "return false && silent >= fence, nil",
		},
		{
			name: "doubts-ignored", file: feedback + "fenced.go", test: fenced,
			does: "the source relies on a target whose manager was silent before",
			from: "	case meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionAwake):",
			to: "	case true:\n		return \"\"\n" +
				"	case meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionAwake):",
		},
	}
}
