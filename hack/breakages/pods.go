package main

func ofPlacement() []breakage {
	return []breakage{
		{
			name: "forgets-unseen", file: placement + "placer.go", test: pods,
			does: "the placer forgets a PodChaperon that the cache does not show",
			from: "left := chaperon != nil && !errors.As(err, &refused)",
			to:   "left := !errors.As(err, &refused) && false",
		},
		{
			name: "elsewhere-ignored", file: placement + "placer.go", test: pods,
			does: "a delegate elsewhere is ignored",
			from: "case other == nil:", to: "case other == nil || true:",
		},
		{
			name: "elsewhere-unreachable", file: placement + "delegates.go", test: pods,
			does: "a delegate in a target that is lost counts",
			from: "counts := other.Reachable() || !other.Lost() && Scheduled(chaperon)",
			to:   "counts := true",
		},
		{
			name: "holder-unknown", file: placement + "delegates.go", test: pods,
			does: "a new leader does not look for PodChaperons",
			from: "if t.Lost() || !known.living(chaperon) && !known.ending(chaperon) {",
			to:   "if true || t.Lost() || !known.living(chaperon) && !known.ending(chaperon) {",
		},
		{
			name: "ending-does-not-hold", file: placement + "delegates.go", test: pods,
			does: "a PodChaperon that is ending does not hold its pod",
			from: "if t.Lost() || !known.living(chaperon) && !known.ending(chaperon) {",
			to:   "if t.Lost() || !known.living(chaperon) {",
		},
		{
			name: "lapse-is-loss", file: placement + "delegates.go", test: pods,
			does: "a target that is out of reach for a moment does not hold its pods",
			from: "if t.Lost() || !known.living(chaperon) && !known.ending(chaperon) {",
			to:   "if !t.Reachable() || !known.living(chaperon) && !known.ending(chaperon) {",
		},
		{
			name: "beside-forgotten", file: feedback + "ends.go", test: pods,
			does: "a proxy that may have a delegate in another target goes",
			from: "(other == beside || ", to: "(",
			missed: "no run that was tried came to it",
		},
		{
			name: "adopts-ending", file: placement + "create.go", test: pods,
			does: "a PodChaperon that is ending is adopted",
			from: "case ending.Begun(found):", to: "case false && ending.Begun(found):",
			missed: "the wait for the target's decision sees that the PodChaperon is ending, and gives it up",
		},
		{
			name: "adopts-others", file: placement + "create.go", test: pods,
			does: "a PodChaperon of another proxy is adopted",
			from: "case ProxyUID(found) != proxy.UID:", to: "case false && ProxyUID(found) != proxy.UID:",
		},
		{
			name: "unanswered-means-no", file: placement + "create.go", test: pods,
			does: "a request to create that was not answered counts as lost if the PodChaperon is not there",
			from: "case (err != nil || ProxyUID(found) != proxy.UID) && !answered:", to: "case false:",
		},
		{
			name: "unanswered-is-lost-soon", file: placement + "unseen.go", test: pods,
			does: "the same, in the next attempt",
			from: "case (err != nil || ProxyUID(found) != proxy.UID) && !late:", to: "case false && !late:",
			missed: "no run that was tried came to it",
		},
		{
			name: "doubt-ends-with-engagement", file: placement + "doubts.go", test: pods,
			does: "a request to create that was not answered is forgotten when its target is engaged anew",
			from: `case next != nil && next != t &&`, to: `case false && next != nil && next != t &&`,
			missed: "no run that was tried came to it",
		},
	}
}

func ofWithdrawals() []breakage {
	return []breakage{
		{
			name: "gone-unseen", file: placement + "withdraw.go", test: pods,
			does: "`deletedUnseen` is always true",
			from: "return now, err == nil && now.UID != seen.UID, err",
			to:   "return now, true, err",
		},
		{
			name: "end-not-awaited", file: placement + "withdraw.go", test: pods,
			does:   "a refusal counts before the withdrawn delegate has ended",
			from:   "	if refusedThere(seen) {\n		return refusal",
			to:     "	if true || refusedThere(seen) {\n		return refusal",
			missed: rare,
		},
	}
}

// ofWithdrawal are about requests that withdraw a delegate.
func ofWithdrawal() []breakage {
	return []breakage{
		{
			name: "withdraws-by-deletion", file: placement + "withdraw.go", test: pods,
			does: "a withdrawal deletes the PodChaperon in place of asking for the end of its delegate",
			from: "return client.IgnoreNotFound(ending.Withdraw(ctx, t.Target, seen))",
			to: "return remove(ctx, t, seen, client.Preconditions{UID: &seen.UID, " +
				"ResourceVersion: &seen.ResourceVersion}, " +
				"client.PropagationPolicy(metav1.DeletePropagationForeground))",
		},
		{
			name: "ask-without-version", file: "pkg/proxy/ending/ending.go", test: pods,
			does: "a withdrawal is requested without the resource version",
			from: "		\"resourceVersion\": seen.ResourceVersion,\n", to: "",
		},
		{
			name: "ask-without-uid", file: "pkg/patch/patch.go", test: pods,
			does: "a withdrawal is requested without the UID",
			from: `withUID := map[string]any{"uid": uid}`, to: `withUID := map[string]any{}`,
		},
		{
			name: "discard-without-both", file: placement + "withdraw.go", test: pods,
			does: "a PodChaperon is discarded without the UID and the resource version",
			from: "exactly := client.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion}",
			to:   "exactly := client.Preconditions{}",
		},
	}
}

// ofLeftovers are about delegates that may run without a PodChaperon.
func ofLeftovers() []breakage {
	return []breakage{
		{
			name: "leftover-ignored", file: placement + "leftover.go", test: pods,
			does: "a pod is placed although a delegate without a PodChaperon may run",
			from: "if runs || err != nil {", to: "if _ = runs; false {",
		},
		{
			name: "leftover-unseen", file: placement + "create.go", test: pods,
			does: "a new leader asks no target for delegates without a PodChaperon",
			from: "p.find(ctx, proxy, engaged)",
			to:   "p.find(ctx, proxy, nil)",
		},
	}
}

func ofFeedback() []breakage {
	return []breakage{
		{
			name: "lost-target-acts", file: feedback + "reconcile.go", test: pods,
			does: "feedback acts for a target that is lost",
			from: "if !r.target.Reachable() {", to: "if false && !r.target.Reachable() {",
		},
		{
			name: "orphan-unasked", file: feedback + "reconcile.go", test: pods,
			does: "a PodChaperon is an orphan without a live read of its proxy",
			from: "if uid == parent.UID {", to: "if false && uid == parent.UID {",
		},
		{
			name: "gone-unasked", file: feedback + "reconcile.go", test: pods,
			does: "a PodChaperon is gone without a live read of it",
			from: "if removal.ifGone {", to: "if false && removal.ifGone {",
		},
		{
			name: "set-back-unconfirmed", file: feedback + "reconcile.go", test: pods,
			does: "a loss in a target that was set back is believed",
			from: "if err := r.target.Confirm(ctx); err != nil {",
			to:   "if err := r.target.Confirm(ctx); false && err != nil {",
		},
		{
			name: "remove-without-version", file: feedback + "reconcile.go", test: pods,
			does: "a proxy is deleted because of a loss without the resource version",
			from: "	if removal.message != \"\" {\n		version",
			to:   "	if removal.message != \"\" && false {\n		version",
		},
		{
			name: "remove-without-uid", file: feedback + "pods.go", test: pods,
			does: "a proxy is deleted without its UID as a precondition",
			from: "&metav1.Preconditions{UID: &pod.UID, ResourceVersion: version}",
			to:   "&metav1.Preconditions{ResourceVersion: version}",
		},
		{
			name: "removes-finished", file: feedback + "decide.go", test: pods, clusters: true,
			does: "a finished proxy without a PodChaperon is removed", rule: noneLost,
			from: "	case proxy.DeletionTimestamp == nil && (translate.Finished(phase) ||",
			to:   "	case proxy.DeletionTimestamp == nil && (",
		},
		{
			name: "finished-keeps-delegate", file: feedback + "decide.go", test: pods,
			does: "the deleted delegate of a finished proxy is not ended",
			from: "if translate.Finished(s.proxy.Status.Phase) && !finishedByItself(chaperon) {",
			to:   "if false && translate.Finished(s.proxy.Status.Phase) && !finishedByItself(chaperon) {",
		},
		{
			name: "success-failed", file: feedback + "decide.go", test: pods,
			does: "a deleted Job pod that succeeded is reported as failed",
			from: "	case !translate.Finished(phase):\n		r.status = statusAtEnd(proxy)\n",
			to: "	case len(proxy.Finalizers) > 0:\n		r.status = proxy.Status.DeepCopy()\n" +
				"		r.status.Phase = corev1.PodFailed\n",
		},
		{
			name: "terminal-overwritten", file: "pkg/translate/status.go", test: pods,
			does: "the status of a finished proxy is overwritten",
			from: `if Finished(proxy.Status.Phase) || delegate.Phase == "" {`, to: `if delegate.Phase == "" {`,
		},
		{
			name: "exit-code-dropped", file: "pkg/translate/status.go", test: pods, clusters: true,
			does: "the proxy's status lacks the containers", rule: exitCodes,
			from: "onlyOwnDevices(status, &proxy.Spec)", to: "status.ContainerStatuses = nil",
		},
		{
			name: "status-of-any-version", file: feedback + "pods.go", test: pods,
			does: "the differences to a cached status are written, whatever the pod has become",
			from: "exactly := metav1.ObjectMeta{UID: pod.UID, ResourceVersion: pod.ResourceVersion}",
			to:   "exactly := metav1.ObjectMeta{UID: pod.UID}",
			missed: "the statuses of simulated delegates have no conditions that could mix. Unit tests notice it, " +
				"and the faults on real clusters found it",
		},
	}
}

func ofChaperon() []breakage {
	return []breakage{
		{
			name: "withdrawn-too-late", file: chaperon + "decide.go", test: pods,
			does: "a delegate that was withdrawn is ended although it has a node by now",
			from: "(!translate.Withdrawn(chaperon) || ours && hasNode(pod)):", to: "!translate.Withdrawn(chaperon):",
		},
		{
			name: "withdrawn-from-cache", file: chaperon + "decide.go", test: pods,
			does: "a delegate that was withdrawn is ended although it has changed",
			from: "d.asSeen = true", to: "d.asSeen = false",
		},
		{
			name: "chaperon-goes-first", file: chaperon + "decide.go", test: pods,
			does: "the PodChaperon is deleted before its delegate has ended",
			from: "	d := decision{status: withAnnotations(pod, ifWorth",
			to:   "	d := decision{deleteChaperon: true, status: withAnnotations(pod, ifWorth",

			missed: "feedback sees that the delegate may run on, and waits for its end",
		},
		{
			name: "end-from-cache", file: chaperon + "reconciler.go", test: pods,
			does: "the delegate's end is believed from the cache of pods",
			from: "	if apierrors.IsNotFound(err) && chaperon.DeletionTimestamp == nil &&\n",
			to:   "	if false && apierrors.IsNotFound(err) && chaperon.DeletionTimestamp == nil &&\n",
		},
		{
			name: "loss-without-version", file: chaperon + "status.go", test: pods,
			does: "the status of a loss is written without the resource version",
			from: "	if lostCondition(status) != nil {", to: "	if lostCondition(status) != nil && false {",
			missed: "the UID protects other PodChaperons, and a frozen manager writes no longer than its requests " +
				"last, which is less than the two minutes after which a delegate is made again",
		},
		{
			name: "made-again-unasked", file: chaperon + "reconciler.go", test: pods,
			does:   "a delegate is made again without a live read of its PodChaperon",
			from:   "fresh := r.clock.Since(chaperon.CreationTimestamp.Time).Abs() < timeouts.FreshChaperon",
			to:     "fresh := true || r.clock.Since(chaperon.CreationTimestamp.Time).Abs() < timeouts.FreshChaperon",
			missed: rare,
		},
		{
			name: "finished-made-again", file: chaperon + "decide.go", test: pods,
			does: "the delegate of a proxy that has finished is made again",
			from: "	case lost == nil && translate.Finished(chaperon.Status.Phase),\n",
			to:   "	case false && lost == nil && translate.Finished(chaperon.Status.Phase),\n",
		},
		{
			name: "made-again-at-once", file: chaperon + "decide.go", test: pods,
			does: "a delegate is made again although its PodChaperon showed it",
			from: "	case lost == nil && !delegateSeen(&chaperon.Status):\n",
			to:   "	case lost == nil && !translate.Finished(chaperon.Status.Phase):\n",
		},
		{
			name: "creation-forgotten", file: chaperon + "reconciler.go", test: pods,
			does: "the target's manager forgets that it created a delegate",
			from: "	r.written.noteCreated(chaperon)\n", to: "",
			missed: rare,
		},
		{
			name: "own-writes-forgotten", file: chaperon + "reconciler.go", test: pods,
			does: "the target's manager forgets the statuses that it wrote",
			from: "	r.written.remember(updated)\n", to: "",
		},
	}
}

func ofOthers() []breakage {
	return []breakage{
		{
			name: "old-first-list", file: "pkg/watch/present.go", test: pods,
			does: "the first lists of a new leader may be old",
			from: "	if options.ResourceVersion == anyTime {\n",
			to:   "	if false && options.ResourceVersion == anyTime {\n",
		},
	}
}
