package main

func ofCopies() []breakage {
	return []breakage{
		{
			name: "collects-without-version", file: collector + "remover.go", test: copies,
			does: "a copy is deleted without its resource version as a precondition",
			from: "exactly := metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}",
			to:   "exactly := metav1.Preconditions{UID: &object.UID}",
		},
		{
			name: "collects-needed", file: collector + "remover.go", test: copies,
			does: "a copy is deleted although a PodChaperon needs it",
			from: "	return r.uses.inUse(needing)", to: "	return false && r.uses.inUse(needing)",
		},
		{
			name: "collects-unmarked", file: collector + "decide.go", test: copies,
			does: "a copy needs no annotation `followed-by` to be deleted",
			from: "return followed && object", to: "return (followed || true) && object",
		},
		{
			name: "old-sighting", file: collector + "decide.go", test: copies,
			does: "the time since when a copy is not needed counts for later versions, too",
			from: "if before == nil || before.resourceVersion != object.ResourceVersion {", to: "if before == nil {",
		},
		{
			name: "untouched", file: objects + "link.go", test: copies,
			does: "a copy that a pod is about to need is not touched",
			from: "		!needed && now.Sub(r.touched) >= timeouts.TouchedFor",
			to:   "		!needed && now.Sub(r.touched) >= 1000*timeouts.TouchedFor",
		},
		{
			name: "record-outlives-use", file: objects + "link.go", test: copies,
			does:   "what was written is remembered when no pod needs the copy any more",
			from:   "	if l.isNeeded(o) {\n		return\n	}\n	l.mu.Lock()",
			to:     "	if true {\n		return\n	}\n	l.mu.Lock()",
			missed: "the copy is touched all the same, because nobody needs it there",
		},
		{
			name: "changes-not-carried", file: objects + "follow.go", test: copies,
			does: "a change of an original is not written to targets",
			from: "		if l.outdated(o) {\n", to: "		if false && l.outdated(o) {\n",
		},
		{
			name: "engaged-anew-unwritten", file: objects + "engaged.go", test: copies,
			does: "a target that is engaged anew gets no copies",
			from: "	l.rewriteAll()\n", to: "",
		},
		{
			name: "joins-old-write", file: objects + "link.go", test: copies,
			does: "a write that waits counts as done with one that began before it",
			from: "		if err != nil || !joined { // Another", to: "		if true || !joined { // Another",
			missed: rare,
		},
		{
			name: "replaces-others", file: writer + "put.go", test: copies,
			does: "an administrator's source replaces an object whoever made it",
			from: "	case found.Labels[v1alpha1.LabelParentClusterID] != w.source.ClusterID:",
			to:   "	case false && found.Labels[v1alpha1.LabelParentClusterID] != w.source.ClusterID:",
		},
		{
			name: "replaces-without-uid", file: writer + "put.go", test: copies,
			does: "an object is replaced without its UID as a precondition",
			from: "	wanted.SetUID(ptr.Deref(only.UID, \"\"))\n", to: "",
			missed: rare,
		},
		{
			name: "replaces-without-version", file: writer + "put.go", test: copies,
			does: "an object is replaced without its resource version as a precondition",
			from: "	wanted.SetResourceVersion(ptr.Deref(only.ResourceVersion, \"\"))\n", to: "",
		},
		{
			name: "policy-taken-for-granted", file: writer + "put.go", test: copies,
			does: "the source does not ask whether the admission policy holds",
			from: "	if deniedByPolicy(answer) {\n", to: "	if true || deniedByPolicy(answer) {\n",
		},
	}
}

func ofClaims() []breakage {
	return []breakage{
		{
			name: "claim-given-up", file: claims + "ensure.go", test: copies,
			does:   "a target whose answer fails counts as one that lacks the copy of a claim",
			from:   "	case err != nil:\n		return silent",
			to:     "	case err != nil:\n		return free",
			missed: "Objection knows the copy from memory",
		},
		{
			name: "lost-keeper-is-free", file: claims + "keeping.go", test: copies,
			does: "a target that is lost counts as one that lacks the copy of a claim",
			from: "		got := silent\n", to: "		got := free\n",
		},
		{
			name: "claim-not-bound-first", file: claims + "ensure.go", test: copies,
			does: "a copy of a claim is made before `followed-to` is written",
			from: "	if err := c.bindTo(ctx, pvc, t.location); err != nil {\n		return err\n	}\n" +
				"	err = t.writer",
			to: "	err = t.writer",
		},
		{
			name: "claim-bound-without-version", file: claims + "ensure.go", test: copies,
			does: "`followed-to` is written without the resource version",
			from: `		"resourceVersion": pvc.ResourceVersion,` + "\n", to: "",
			missed: rare,
		},
		{
			name: "forgotten-copy-ignored", file: claims + "ensure.go", test: copies,
			does:   "a target is not asked for a copy that its claim does not name",
			from:   "	if keeper != nil && keeper != t {",
			to:     "	if false && keeper != nil && keeper != t {",
			missed: rare,
		},
		{
			name: "silent-source-has-no-claim", file: claims + "reconcile.go", test: copies,
			does: "a source that does not answer counts as one without the claim",
			from: "		return reconcile.Result{}, " +
				"fmt.Errorf(\"getting the claim here: %w\", err) // The original may exist.\n",
			to:     "",
			missed: rare,
		},
		{
			name: "removes-claims-of-others", file: claims + "decide.go", test: copies,
			does: "a claim that is no copy of ours is removed",
			from: "	case there.origin != ours || there.deleting:", to: "	case there.deleting:",
		},
		{
			name: "cached-original-decides", file: claims + "reconcile.go", test: copies,
			does: "the cache, and not the API server, says whether the original of a claim exists",
			from: "	pvc, original, err := c.source.readClaim(ctx, key)\n	if err != nil {\n" +
				"		return reconcile.Result{}, fmt.Errorf(\"getting the claim here",
			to: "	pvc, _, err := c.source.readClaim(ctx, key)\n	var original *claim\n" +
				"	if here := c.source.listedClaims(key.Namespace); here != nil {\n" +
				"		original = here.Entry(key.Name)\n	}\n	if err != nil {\n" +
				"		return reconcile.Result{}, fmt.Errorf(\"getting the claim here",
			missed: rare,
		},
		{
			name: "claim-not-expanded", file: claims + "decide.go", test: copies,
			does: "a copy of a claim is not expanded",
			from: "		return stepExpand", to: "		return stepNone",
		},
	}
}
