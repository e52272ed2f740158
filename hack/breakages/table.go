package main

// breakage is one place in which the product is broken on purpose.
type breakage struct {
	name, file string
	// from is a text that the file has once, and to replaces it.
	from, to string
	// test is the simulation that should find the breakage, or empty.
	test string
	// clusters says that the suite of faults should find it on real clusters.
	clusters bool
	// missed says why the simulation does not find the breakage. It is empty if it should.
	missed string
	// unseen says why the suite of faults does not find the breakage. It is empty if it should.
	unseen string
}

// reason returns why a breakage is not found on clusters, or in the simulation. It is empty if it should be found.
func (b breakage) reason(clusters bool) string {
	if clusters {
		return b.unseen
	}
	return b.missed
}

// rare says that no run came to what the breakage breaks, of those that were tried. docs/design/model.md says of how
// many.
const rare = "no run that was tried came to it"

const (
	pods   = "TestTheProtocolHoldsWhateverGoesWrong"
	leases = "TestOneSourceActsAtATimeWhateverGoesWrong"
	copies = "TestCopiesServePodsWhateverGoesWrong"
	served = "TestServicesReachPodsWhateverGoesWrong"

	placement = "pkg/proxy/scheduling/placement/"
	feedback  = "pkg/proxy/feedback/"
	chaperon  = "pkg/delegate/chaperon/"
	hold      = "pkg/connect/hold/"
	objects   = "pkg/follow/objects/"
	writer    = "pkg/follow/writer/"
	claims    = "pkg/follow/claims/"
	services  = "pkg/follow/services/"
	collector = "pkg/delegate/garbagecollection/"
)

func all() []breakage {
	var all []breakage
	all = append(all, ofPlacement()...)
	all = append(all, ofLeftovers()...)
	all = append(all, ofFeedback()...)
	all = append(all, ofChaperon()...)
	all = append(all, ofLeases()...)
	all = append(all, ofCopies()...)
	all = append(all, ofClaims()...)
	all = append(all, ofServices()...)
	all = append(all, ofOthers()...)
	return append(all, ofClusters()...)
}

// ofClusters are found on real clusters only, or surely there.
func ofClusters() []breakage {
	return []breakage{
		{
			name: "end-unconfirmed", file: feedback + "decide.go", clusters: true,
			from: "		p.end(s, ending{chaperon: chaperon, grace: graceOf(s.proxy)})\n",
			to: "		p.end(s, ending{chaperon: chaperon, grace: graceOf(s.proxy)})\n" +
				"		p.removal = &removal{grace: ptr.To[int64](0)}\n",
		},
		{
			name: "orphans-stay", file: feedback + "decide.go", clusters: true,
			from: "			p.end(s, ending{chaperon: c, ifOrphan: true})\n", to: "			_ = c\n",
		},
		{
			name: "deletion-stays-here", file: feedback + "decide.go", clusters: true,
			from: "		p.end(s, ending{chaperon: chaperon, grace: graceOf(s.proxy)})\n",
			to:   "		_ = graceOf\n",
		},
		{
			name: "fenced-at-once", file: feedback + "fenced.go", clusters: true,
			from: "silent > timeouts.FenceHoldsAfterRestart(", to: "silent > 0*timeouts.FenceHoldsAfterRestart(",
			unseen: "an outage of more than 40 s has to meet a fenced pod in its target",
		},
		{
			name: "readiness-invented", file: "pkg/translate/status.go", clusters: true,
			from: "			c = gatedReadiness(proxy, c)\n",
			to:   "			c.Status = corev1.ConditionTrue\n			c = gatedReadiness(proxy, c)\n",
		},
		{
			name: "other-cluster-believed", file: "pkg/connect/identity/identity.go", clusters: true,
			from: "	case seen == i.want:\n", to: "	case seen == i.want || true:\n",
		},
		{
			name: "set-back-unnoticed", file: hold + "hold.go", clusters: true,
			from: "		return &TurnedBackError{Remembered: remembered, Found: found}\n", to: "		return nil\n",
		},
		{
			name: "end-never-confirmed", file: feedback + "decide.go", clusters: true,
			from: "	case confirmed(proxy):\n", to: "	case true, confirmed(proxy):\n",
		},
		{
			name: "renewals-ignored", file: "pkg/delegate/fence/observer.go", clusters: true,
			from: "was.clusterID != is.clusterID || was.stamp != is.stamp {", to: "was.clusterID != is.clusterID {",
		},
		{
			name: "never-lost", file: "pkg/connect/target/health.go", clusters: true,
			from: "func (h health) lost() bool { return h.misses >= maxMisses }",
			to:   "func (h health) lost() bool { return h.misses >= 1000*maxMisses }",
		},
	}
}

func ofPlacement() []breakage {
	return []breakage{
		{
			name: "forgets-unseen", file: placement + "placer.go", test: pods,
			from: "if chaperon != nil && !errors.As(err, &refused) {",
			to:   "if !errors.As(err, &refused) && false {",
		},
		{
			name: "elsewhere-ignored", file: placement + "placer.go", test: pods,
			from: "case other == nil:", to: "case other == nil || true:",
		},
		{
			name: "elsewhere-unreachable", file: placement + "delegates.go", test: pods,
			from: "if other.NodeName != t.NodeName && other.Reachable() && known.living(chaperon) {",
			to:   "if other.NodeName != t.NodeName && known.living(chaperon) {",
		},
		{
			name: "holder-unknown", file: placement + "delegates.go", test: pods,
			from: "if !t.Reachable() || !known.living(chaperon) && !known.ending(chaperon) {",
			to:   "if true || !t.Reachable() || !known.living(chaperon) && !known.ending(chaperon) {",
		},
		{
			name: "ending-does-not-hold", file: placement + "delegates.go", test: pods,
			from: "if !t.Reachable() || !known.living(chaperon) && !known.ending(chaperon) {",
			to:   "if !t.Reachable() || !known.living(chaperon) {",
		},
		{
			name: "adopts-ending", file: placement + "create.go", test: pods,
			from: "case ending.Begun(found):", to: "case false && ending.Begun(found):",
			missed: "the wait for the target's decision sees that the PodChaperon is ending, and gives it up",
		},
		{
			name: "adopts-others", file: placement + "create.go", test: pods,
			from: "case ProxyUID(found) != proxy.UID:", to: "case false && ProxyUID(found) != proxy.UID:",
		},
		{
			name: "busy-means-no", file: placement + "create.go", test: pods,
			from:   "if wasNotCreated(apierror.Of(err, apierror.Create)) && !p.Delegates.isUncertain(proxy.UID, t) {",
			to:     "if wasNotCreated(apierror.Of(err, apierror.Create)) {",
			missed: "the target stays uncertain, and so holds the pod",
		},
		{
			name: "gone-unseen", file: placement + "withdraw.go", test: pods,
			from: "return err == nil && now.UID != seen.UID, err",
			to:   "return true, err",
		},
		{
			name: "end-not-awaited", file: placement + "withdraw.go", test: pods,
			from:   "	if refusedThere(seen) {\n		return refusal",
			to:     "	if true || refusedThere(seen) {\n		return refusal",
			missed: rare,
		},
		{
			name: "withdraws-by-deletion", file: placement + "withdraw.go", test: pods,
			from: "return client.IgnoreNotFound(ending.AskAsSeen(ctx, t.Client, seen))",
			to: "return remove(ctx, t, seen, client.Preconditions{UID: &seen.UID, " +
				"ResourceVersion: &seen.ResourceVersion}, " +
				"client.PropagationPolicy(metav1.DeletePropagationForeground))",
		},
		{
			name: "ask-without-version", file: "pkg/proxy/ending/ending.go", test: pods,
			from: `map[string]any{"resourceVersion": seen.ResourceVersion}`, to: `map[string]any{}`,
		},
		{
			name: "ask-without-uid", file: "pkg/patch/patch.go", test: pods,
			from: `withUID := map[string]any{"uid": uid}`, to: `withUID := map[string]any{}`,
		},
		{
			name: "discard-without-both", file: placement + "withdraw.go", test: pods,
			from: "exactly := client.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion}",
			to:   "exactly := client.Preconditions{}",
		},
	}
}

// ofLeftovers are about delegates that may run without a PodChaperon.
func ofLeftovers() []breakage {
	return []breakage{
		{
			name: "leftover-ignored", file: placement + "create.go", test: pods,
			from: "if err := p.leftoversEnded(ctx, proxy, t); err != nil {",
			to:   "if err := p.leftoversEnded(ctx, proxy, t); false {",
		},
		{
			name: "leftover-unseen", file: placement + "create.go", test: pods,
			from:   "p.find(ctx, proxy, engaged)",
			to:     "p.find(ctx, proxy, nil)",
			missed: "the leader has to change, and somebody to delete a PodChaperon, at the same time",
		},
	}
}

func ofFeedback() []breakage {
	return []breakage{
		{
			name: "lost-target-acts", file: feedback + "reconcile.go", test: pods,
			from: "if !r.target.Reachable() {", to: "if false && !r.target.Reachable() {",
		},
		{
			name: "orphan-unasked", file: feedback + "reconcile.go", test: pods,
			from: "if uid == parent.UID {", to: "if false && uid == parent.UID {",
		},
		{
			name: "gone-unasked", file: feedback + "reconcile.go", test: pods,
			from: "if removal.ifGone && r.target.Allows(proxy.Namespace) {",
			to:   "if false && removal.ifGone && r.target.Allows(proxy.Namespace) {",
		},
		{
			name: "set-back-unconfirmed", file: feedback + "reconcile.go", test: pods,
			from: "if err := r.target.Confirm(ctx); err != nil {",
			to:   "if err := r.target.Confirm(ctx); false && err != nil {",
		},
		{
			name: "remove-without-version", file: feedback + "reconcile.go", test: pods,
			from: "	if removal.message != \"\" {\n		version",
			to:   "	if removal.message != \"\" && false {\n		version",
		},
		{
			name: "remove-without-uid", file: feedback + "pods.go", test: pods,
			from: "&metav1.Preconditions{UID: &pod.UID, ResourceVersion: version}",
			to:   "&metav1.Preconditions{ResourceVersion: version}",
		},
		{
			name: "removes-finished", file: feedback + "decide.go", test: pods, clusters: true,
			from:   "	case proxy.DeletionTimestamp == nil && translate.Finished(phase):\n",
			to:     "	case false && proxy.DeletionTimestamp == nil && translate.Finished(phase):\n",
			unseen: "a round has to delete the PodChaperon of a pod that has finished",
		},
		{
			name: "finished-keeps-delegate", file: feedback + "decide.go", test: pods,
			from: "if translate.Finished(s.proxy.Status.Phase) && !finishedByItself(chaperon) {",
			to:   "if false && translate.Finished(s.proxy.Status.Phase) && !finishedByItself(chaperon) {",
		},
		{
			name: "success-failed", file: feedback + "decide.go", test: pods,
			from: "	case !translate.Finished(phase):\n		r.status = statusAtEnd(proxy)\n",
			to: "	case len(proxy.Finalizers) > 0:\n		r.status = proxy.Status.DeepCopy()\n" +
				"		r.status.Phase = corev1.PodFailed\n",
		},
		{
			name: "terminal-overwritten", file: "pkg/translate/status.go", test: pods,
			from: `if Finished(proxy.Status.Phase) || delegate.Phase == "" {`, to: `if delegate.Phase == "" {`,
		},
		{
			name: "exit-code-dropped", file: "pkg/translate/status.go", test: pods, clusters: true,
			from: "dropDeviceHealth(status.ContainerStatuses)", to: "status.ContainerStatuses = nil",
		},
		{
			name: "status-without-uid", file: feedback + "pods.go", test: pods,
			from: "exactly := metav1.ObjectMeta{UID: pod.UID, ResourceVersion: version}",
			to:   "exactly := metav1.ObjectMeta{ResourceVersion: version}",
		},
	}
}

func ofChaperon() []breakage {
	return []breakage{
		{
			name: "chaperon-goes-first", file: chaperon + "decide.go", test: pods,
			from: "	d := decision{status: withAnnotations(pod, ifWorth",
			to:   "	d := decision{deleteChaperon: true, status: withAnnotations(pod, ifWorth",
		},
		{
			name: "end-from-cache", file: chaperon + "reconciler.go", test: pods,
			from: "	if apierrors.IsNotFound(err) && chaperon.DeletionTimestamp == nil &&\n",
			to:   "	if false && apierrors.IsNotFound(err) && chaperon.DeletionTimestamp == nil &&\n",
		},
		{
			name: "loss-without-version", file: chaperon + "status.go", test: pods,
			from: "	if lostCondition(status) != nil {", to: "	if lostCondition(status) != nil && false {",
			missed: "the UID protects other PodChaperons, and a frozen manager writes no longer than its requests " +
				"last, which is less than the two minutes after which a delegate is made again",
		},
		{
			name: "made-again-unasked", file: chaperon + "reconciler.go", test: pods,
			from:   "fresh := r.clock.Since(chaperon.CreationTimestamp.Time).Abs() < timeouts.FreshChaperon",
			to:     "fresh := true || r.clock.Since(chaperon.CreationTimestamp.Time).Abs() < timeouts.FreshChaperon",
			missed: rare,
		},
		{
			name: "finished-made-again", file: chaperon + "decide.go", test: pods,
			from: "	case lost == nil && translate.Finished(chaperon.Status.Phase),\n",
			to:   "	case false && lost == nil && translate.Finished(chaperon.Status.Phase),\n",
		},
		{
			name: "made-again-at-once", file: chaperon + "decide.go", test: pods,
			from: "	case lost == nil && !delegateSeen(&chaperon.Status):\n",
			to:   "	case lost == nil && !translate.Finished(chaperon.Status.Phase):\n",
		},
		{
			name: "creation-forgotten", file: chaperon + "reconciler.go", test: pods,
			from: "	r.written.noteCreated(chaperon)\n", to: "",
			missed: rare,
		},
		{
			name: "own-writes-forgotten", file: chaperon + "reconciler.go", test: pods,
			from: "	r.written.remember(updated)\n", to: "",
		},
	}
}

func ofLeases() []breakage {
	return []breakage{
		{
			name: "takes-at-once", file: hold + "acquire.go", test: leases,
			from: "return held - silent, nil", to: "return 0*(held - silent), nil",
		},
		{
			name: "rival-unnoticed", file: hold + "process.go", test: leases,
			from: `return holder != "" && holder != p.holder &&`,
			to:   `return holder != "" && holder != p.holder && p.leading.IsZero() &&`,
		},
		{
			name: "holders-clock", file: hold + "process.go", test: leases,
			from: "looked: now, changed: now,", to: "looked: now, changed: renewedAt(lease),",
		},
		{
			name: "renews-blindly", file: hold + "hold.go", test: leases,
			from: "	if err == nil {\n		err = h.decide(ctx, lease)\n	}\n" +
				"	if err != nil {\n		return written{}, err",
			to: "	if err != nil {\n		return written{}, err",
		},
		{
			name: "late-renewal-counts", file: hold + "hold.go", test: leases,
			from: "left := by.right - h.process.options.Clock.Since(by.asked)",
			to:   "left := by.right + 0*h.process.options.Clock.Since(by.asked)",
			missed: "the right ends a second late at most, and only a copy that began just then takes the Lease in " +
				"this second",
		},
		{
			name: "rival-for-15s", file: hold + "acquire.go", test: leases,
			from:   "	if is.rival && silent",
			to:     "	if false && is.rival && silent",
			missed: "it decides which source acts, not how many",
		},
	}
}

func ofOthers() []breakage {
	return []breakage{
		{
			name: "old-first-list", file: "pkg/watch/present.go", test: pods,
			from: "	if options.ResourceVersion == anyTime {\n",
			to:   "	if false && options.ResourceVersion == anyTime {\n",
		},
	}
}
