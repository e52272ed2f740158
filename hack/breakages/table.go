package main

import (
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// breakage is one place in which the product is broken on purpose.
type breakage struct {
	name, file string
	// does says in Markdown what the broken product does.
	does string
	// from is a text that the file has once, and to replaces it.
	from, to string
	// also are places in other files, if several make the decision.
	also []place
	// test is the simulation that should find the breakage, or empty.
	test string
	// clusters says that the suite of faults should find it on real clusters.
	clusters bool
	// loss says that the suite of faults finds it in a round that loses the target for longer than a fence. The short
	// form has none.
	loss bool
	// missed says why the simulation does not find the breakage. It is empty if it should.
	missed string
	// rule is the promise, as the suite of faults names it, that must be broken, and orRule another one that may be
	// broken first. If rule is empty, any will do.
	rule, orRule string
	// unseen says why the suite of faults does not find the breakage. It is empty if it should.
	unseen string
}

// place is a text that a file has once, and what replaces it.
type place struct{ file, from, to string }

// places returns all places of the breakage.
func (b breakage) places() []place { return append([]place{{b.file, b.from, b.to}}, b.also...) }

// breaks reports whether a line of the suite of faults names the promise that must be broken.
func (b breakage) breaks(line string) bool {
	return strings.Contains(line, b.rule) || b.orRule != "" && strings.Contains(line, b.orRule)
}

// reason returns why a breakage is not found on clusters, or in the simulation. It is empty if it should be found.
func (b breakage) reason(clusters bool) string {
	if clusters {
		return b.unseen
	}
	return b.missed
}

// rare says that no run came to what the breakage breaks, of those that were tried.
const rare = "no run that was tried came to it"

const (
	pods   = "TestTheProtocolHoldsWhateverGoesWrong"
	leases = "TestOneSourceActsAtATimeWhateverGoesWrong"
	copies = "TestCopiesServePodsWhateverGoesWrong"
	fenced = "TestAFencedPodRunsOnceWhateverGoesWrong"
	served = "TestServicesReachPodsWhateverGoesWrong"

	placement = "pkg/proxy/scheduling/placement/"
	feedback  = "pkg/proxy/feedback/"
	chaperon  = "pkg/delegate/chaperon/"
	hold      = "pkg/connect/hold/"
	fence     = "pkg/delegate/fence/"
	objects   = "pkg/follow/objects/"
	writer    = "pkg/follow/writer/"
	claims    = "pkg/follow/claims/"
	services  = "pkg/follow/services/"
	collector = "pkg/delegate/garbagecollection/"
)

// The promises that breakages break on clusters.
const (
	onePerProxy = string(checker.OnePerProxy)
	runsOnce    = string(checker.RunsOnce)
	noneLost    = string(checker.NoneLost)
	endsFirst   = string(checker.EndsFirst)
	exitCodes   = string(checker.ExitCodes)
	converges   = string(checker.Converges)
	notices     = string(checker.Notices)
	readiness   = string(checker.Readiness)
	staysReady  = string(checker.StaysReady)
)

func all() []breakage {
	var all []breakage
	all = append(all, ofPlacement()...)
	all = append(all, ofWithdrawals()...)
	all = append(all, ofWithdrawal()...)
	all = append(all, ofLeftovers()...)
	all = append(all, ofFeedback()...)
	all = append(all, ofChaperon()...)
	all = append(all, ofLeases()...)
	all = append(all, ofFencing()...)
	all = append(all, ofCopies()...)
	all = append(all, ofClaims()...)
	all = append(all, ofServices()...)
	all = append(all, ofOthers()...)
	return append(all, ofClusters()...)
}

// unheld is how the code says that a target has no delegate of a proxy.
const unheld = "t.Lost() || !known.living(chaperon) && !known.ending(chaperon) {"

// unseen has a new leader not see such a delegate elsewhere.
func unseen() []place {
	return []place{
		{placement + "leftover.go", "{ return t.silent(began) })", "{ return true || t.silent(began) })"},
		{placement + "create.go", "other != nil && Scheduled(known) {", "other == t && Scheduled(known) {"},
		{placement + "placer.go", "	case other == nil:\n", "	case other == nil, Scheduled(chaperon):\n"},
	}
}

// ofClusters are found on real clusters only, or surely there.
func ofClusters() []breakage {
	return []breakage{
		{
			name: "end-unconfirmed", file: feedback + "decide.go", clusters: true,
			does: "a proxy goes before its delegate has ended", rule: endsFirst,
			from: "		p.end(s, ending{chaperon: chaperon, grace: graceOf(s.proxy)})\n",
			to: "		p.end(s, ending{chaperon: chaperon, grace: graceOf(s.proxy)})\n" +
				"		p.removal = &removal{grace: ptr.To[int64](0)}\n",
		},
		{
			name: "placed-again", file: placement + "delegates.go", clusters: true,
			does: "a new leader looks for nothing that the last one placed", rule: runsOnce,
			from: "if " + unheld, to: "if true || " + unheld,
			also: unseen(),
		},
		{
			name: "second-kept", file: placement + "delegates.go", clusters: true,
			does: "the same, and no delegate is ended whose proxy is bound elsewhere", rule: onePerProxy,
			from: "if " + unheld, to: "if true || " + unheld,
			also: append(unseen(), place{
				feedback + "decide.go", `case s.proxy.Spec.NodeName != "" || s.proxy`, "case s.proxy",
			}),
		},
		{
			name: "orphans-stay", file: feedback + "decide.go", clusters: true,
			does: "a delegate whose proxy is gone is not ended", rule: converges,
			from: "p.end(s, ending{chaperon: c, ifOrphan: true, grace: s.graceOfOrphan(c)})", to: "_ = c",
		},
		{
			name: "deletion-stays-here", file: feedback + "decide.go", clusters: true,
			does: "the deletion of a proxy does not reach the target", rule: converges,
			from: "		p.end(s, ending{chaperon: chaperon, grace: graceOf(s.proxy)})\n",
			to:   "		_ = graceOf\n",
		},
		{
			name: "fenced-at-once", file: feedback + "fenced.go", test: fenced, clusters: true, loss: true,
			does: "the source takes fenced pods for stopped as soon as their target is lost", rule: endsFirst,
			from: "silent > timeouts.FenceHoldsAfterRestart(", to: "silent > 0*timeouts.FenceHoldsAfterRestart(",
		},
		{
			name: "readiness-invented", file: "pkg/translate/status.go", clusters: true,
			does: "a proxy is Ready although its delegate is not", rule: readiness,
			from: "			c = gatedReadiness(proxy, c)\n",
			to:   "			c.Status = corev1.ConditionTrue\n			c = gatedReadiness(proxy, c)\n",
		},
		{
			name: "other-cluster-believed", file: "pkg/connect/identity/identity.go", clusters: true,
			does: "another cluster answers after its Secret was swapped", rule: noneLost,
			from: "	case seen == i.want:\n", to: "	case seen == i.want || true:\n",
		},
		{
			name: "set-back-unnoticed", file: hold + "hold.go", clusters: true,
			does: "a target may be set back", rule: converges,
			from: "		return &TurnedBackError{Remembered: remembered, Found: found}\n", to: "		return nil\n",
			// A hold that has lapsed is acquired again.
			also: []place{{hold + "acquire.go", "if r.Accepted != remembered {", "if false {"}},
		},
		{
			name: "end-never-confirmed", file: feedback + "decide.go", clusters: true,
			does: "a proxy that is being deleted stays", rule: converges,
			from: "	case confirmed(proxy):\n", to: "	case true, confirmed(proxy):\n",
		},
		{
			name: "renewals-ignored", file: fence + "observer.go", test: fenced, clusters: true,
			does: "the target takes a source that renews its Lease for silent",
			from: "(was.clusterID != is.clusterID || was.stamp != is.stamp) {", to: "was.clusterID != is.clusterID {",
			rule: converges, orRule: noneLost, // A fenced pod goes, and the next one does not begin.
		},
		{
			name: "never-lost", file: "pkg/connect/target/health.go", clusters: true,
			does: "a target that does not answer is never lost", rule: notices,
			from: "h.misses >= minMisses &&", to: "h.misses >= 1000*minMisses &&",
		},
		{
			name: "lost-at-once", file: "pkg/connect/target/health.go", clusters: true,
			does: "a target is lost as soon as it misses one check",
			from: "h.misses >= minMisses && now.Sub(h.answered) >= deadAfter",
			to:   "minMisses > 0 && h.misses >= 1",
			rule: staysReady,
		},
	}
}
