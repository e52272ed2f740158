package simulation

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

const (
	// reaction is how long the parts of a target take that works.
	reaction = 5 * time.Second
	// absence is how long nobody leads a target's managers at most, before the next one begins. It then takes a moment.
	absence = timeouts.FenceRestart - reaction
)

func (s *siege) do(a action) {
	s.trace = append(s.trace, a.label)
	s.notice(a.label)
	time.Sleep(time.Nanosecond) //nolint:forbidigo // The bubble's time. No two timers end at the same instant.
	a.do()
	s.rest()
}

func (s *siege) randomly(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	kinds := []func() []action{
		s.progress, s.progress, s.progress, s.faults, s.times, s.times, s.times, s.partitions, s.ofSource, s.ofPods,
	}
	s.calm = random.IntN(2) == 0
	if random.IntN(2) == 0 {
		kinds = append(kinds, s.ofTarget)
	}
	if random.IntN(3) == 0 {
		s.do(s.lawlessness())
		kinds = append(kinds, s.ofTarget, s.disorder)
	}
	if wrong := s.clocks(); random.IntN(2) == 0 {
		s.do(wrong[random.IntN(len(wrong))])
	}
	for range stepsOfARun {
		if s.failed() != nil {
			return
		}
		if s.calm || random.IntN(8) == 0 {
			s.run(random.IntN(20))
		}
		if possible := kinds[random.IntN(len(kinds))](); len(possible) > 0 {
			s.do(possible[random.IntN(len(possible))])
		}
	}
}

func (s *siege) repeat(labels []string) {
	for _, label := range labels {
		if s.failed() != nil {
			return
		}
		all := slices.Concat(s.progress(), s.faults(), s.times(), s.partitions(), s.ofSource(), s.ofPods(),
			s.ofTarget(), s.disorder(), []action{s.lawlessness(), s.second()}, s.clocks())
		if i := slices.IndexFunc(all, func(a action) bool { return a.label == label }); i >= 0 {
			s.do(all[i])
		}
	}
}

// lawlessness lets the target do what fencing does not allow for, from now on.
func (s *siege) lawlessness() action {
	return action{label: "everything may fail in the target", do: func() { s.lawless = true }}
}

// clocks are clocks of the target that are wrong from the beginning of a run.
func (s *siege) clocks() []action {
	if slices.ContainsFunc(s.trace, func(label string) bool { return label != s.lawlessness().label }) {
		return nil
	}
	return wrongClocks(s.target, "the target", func() {
		s.guard.crash(errCrash)
		s.guard = s.newGuard()
	})
}

// run is a time without faults.
func (s *siege) run(steps int) {
	for i := range steps {
		if all := s.progress(); len(all) > 0 {
			s.do(all[i%len(all)])
			continue
		}
		s.do(s.second())
	}
}

func (s *siege) second() action {
	return action{label: "1s pass", do: func() { s.pass(time.Second) }}
}

// progress is what goes on if nothing goes wrong.
func (s *siege) progress() []action {
	return slices.Concat(s.progressOf(s.source), s.progressOf(s.target))
}

// progressOf is what the processes of a cluster do, and in a target its Kubernetes.
func (s *siege) progressOf(of *cluster) []action {
	var all []action
	for _, c := range s.answerable() {
		if c.by.of == of {
			all = append(all, action{label: c.label, do: func() { c.serve(); s.answer(c) }})
		}
	}
	for _, p := range []*process{s.sources[0].leader, s.guard.process} {
		if p.of != of || !p.acts() {
			continue
		}
		for _, l := range p.caches {
			if l.behind() {
				all = append(all, action{label: l.name + " gets a change", do: l.next})
			}
		}
	}
	for _, q := range s.queues() {
		if q.process.of == of {
			for _, key := range q.keys() {
				all = append(all, action{label: q.name + " works on " + key.Name, do: func() { q.work(key) }})
			}
		}
	}
	if of == s.target {
		all = append(all, slices.DeleteFunc(s.kube.actions(false), s.isEarly)...)
	}
	return all
}

// isEarly says whether a kubelet would kill a container before its grace period has passed.
func (s *siege) isEarly(a action) bool {
	return slices.ContainsFunc(list[*corev1.Pod](s.target), func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil && pod.DeletionTimestamp.After(s.target.clock().Now()) &&
			strings.HasSuffix(a.label, "the kubelet kills "+pod.Name)
	})
}

// answerable returns the requests that get an answer if nothing goes wrong.
func (s *siege) answerable() []*call {
	return slices.DeleteFunc(s.underWay(), func(c *call) bool { return c.by.frozen || s.isCut(c.by, c.to) })
}

func (s *siege) isCut(p *process, to *cluster) bool {
	return s.cut && p.of == s.source && to == s.target
}

// faults are requests of the source that go wrong. Those of a target that works do not.
func (s *siege) faults() []action {
	of := s.sources[0].leader.name
	return slices.DeleteFunc(slices.Concat(s.failures(), s.delays(s.isCut)), func(a action) bool {
		return !strings.HasPrefix(a.label, of) || s.cut && strings.Contains(a.label, "is carried out, and its answer")
	})
}

// disorder is what fencing does not allow for: requests of the target's manager fail, and the target stalls.
func (s *siege) disorder() []action {
	if !s.lawless {
		return nil
	}
	all := slices.DeleteFunc(s.failures(), func(a action) bool { return !strings.HasPrefix(a.label, s.guard.name) })
	for _, d := range []time.Duration{11 * time.Second, 40 * time.Second, 5 * time.Minute} {
		all = append(all, action{label: d.String() + " pass, and the target stalls", do: func() {
			s.sleep(d)
			s.deaf += d
		}})
	}
	for _, l := range s.guard.caches {
		if l.behind() && s.guard.acts() {
			all = append(all, action{label: l.name + " misses changes, and lists", do: l.relist})
		}
	}
	for i := range all {
		do := all[i].do
		all[i].do = func() { s.heard.lawless = true; do() }
	}
	return all
}

func (s *siege) times() []action {
	var all []action
	times := []time.Duration{2 * time.Second, 11 * time.Second, 40 * time.Second, 3 * time.Minute}
	if s.calm {
		times = times[:1]
	}
	for _, d := range times {
		all = append(all, action{label: d.String() + " pass", do: func() { s.pass(d) }})
	}
	return all
}

// pass lets time pass in which the target works.
func (s *siege) pass(d time.Duration) {
	for ; d > 0 && s.failed() == nil; d -= reaction {
		s.catchUp()
		s.sleep(min(d, reaction))
		s.rest()
		if !s.lawless && !s.guard.acts() && time.Since(s.heard.absent) >= absence {
			s.nextGuard()
		}
	}
	s.catchUp()
}

// catchUp lets the target do all that it can do now.
func (s *siege) catchUp() {
	for range 500 {
		all := s.progressOf(s.target)
		if len(all) == 0 || s.failed() != nil {
			return
		}
		all[0].do()
		s.rest()
	}
}

// partitions are networks that end and come back, and targets that the source takes for lost.
func (s *siege) partitions() []action {
	if s.cut {
		return []action{{label: "the target returns", do: func() { s.cut = false }}}
	}
	return []action{
		{label: "the target is cut off", do: func() { s.cut = true }},
		{label: "the source takes the target for lost", do: func() {
			s.show(v1alpha1.ReasonUnreachable, func(*v1alpha1.TargetStatus) {})
		}},
		{label: "the target becomes slow, or is slow no more", do: s.becomeSlow},
	}
}

// ofSource are leaders of the source that end and begin.
func (s *siege) ofSource() []action {
	h := s.sources[0]
	if h.leader.alive() {
		return []action{
			{label: "the source's leader crashes", do: h.crash},
			{label: "the source's leader stops", do: h.stop},
		}
	}
	return []action{{label: "the source's next leader begins", do: s.nextLeader}}
}

func (s *siege) nextLeader() {
	h := s.sources[0]
	s.pass(max(time.Second, timeouts.LeaseDuration-time.Since(h.crashed)))
	h.lead()
	s.lookAfterTarget()
}

// ofPods are proxies and delegates that somebody deletes.
func (s *siege) ofPods() []action {
	all := s.ofProxies()
	for _, delegate := range list[*corev1.Pod](s.target) {
		all = append(all, action{label: "somebody deletes the delegate " + delegate.Name, do: func() {
			_ = s.target.delete(refOf(delegate), &client.DeleteOptions{})
		}})
	}
	return all
}

func (s *siege) ofProxies() []action {
	var all []action
	for _, proxy := range list[*corev1.Pod](s.source) {
		if proxy.DeletionTimestamp == nil {
			all = append(all, action{label: "somebody deletes " + proxy.Name, do: func() {
				_ = s.source.delete(refOf(proxy), &client.DeleteOptions{})
			}})
		}
	}
	return all
}

// ofTarget are the target's managers that end, freeze and begin. If the target works, one of them goes between two
// times that it hears of the source.
func (s *siege) ofTarget() []action {
	g := s.guard
	goes := func(do func()) func() {
		return func() { s.heard.changes++; s.heard.absent = time.Now(); do() }
	}
	switch {
	case g.acts() && (s.lawless || s.heard.changes == 0):
		return []action{
			{label: "the target's manager crashes", do: goes(func() { g.crash(errCrash) })},
			{label: "the target's manager freezes", do: goes(func() { g.frozen = true })},
		}
	case g.alive() && g.frozen:
		return []action{{label: "the target's manager goes on", do: s.nextGuard}}
	case !g.alive():
		return []action{{label: "the target's next manager begins", do: func() {
			s.pass(max(0, timeouts.LeaseDuration-time.Since(s.heard.absent)))
			s.nextGuard()
		}}}
	}
	return nil
}

// silence is for how long the target has not heard of the source.
func (s *siege) silence() time.Duration {
	return time.Since(s.began) - slices.Max(append(s.heard.times, 0))
}

// nextGuard lets the manager go on that was frozen, or starts the next one.
func (s *siege) nextGuard() {
	if s.guard.acts() {
		return
	}
	if s.absentForLong() {
		s.heard.lawless = true
	}
	if s.guard.alive() {
		s.guard.frozen = false
		s.guard.woke, s.guard.slept = time.Now(), time.Since(s.heard.absent)
		return
	}
	s.guard = s.newGuard()
}

// heal first leaves the target cut off: the end of deleted pods is confirmed. Then the target returns, and fences
// nothing any more, nor does it make a delegate again.
func (s *siege) heal() {
	s.trace = append(s.trace, healed)
	s.healing, s.wary = true, false
	s.nextGuard()
	for _, a := range s.ofProxies() {
		s.do(a)
	}
	s.cut = true
	if s.heard.changes == 0 && len(s.heard.times)%2 == 0 { // The next manager begins to count late.
		s.goOn(timeouts.FenceLeast - reaction - s.silence())
		s.heard.changes, s.heard.absent = 1, time.Now()
		s.guard.crash(errCrash)
		s.goOn(absence)
		s.nextGuard()
	}
	s.goOn(timeouts.FenceHoldsAfterRestart(2*time.Minute, 30*time.Second) + 3*time.Minute)
	status := s.clusterTarget().Status
	relies := ptr.Deref(status.Fences, false) &&
		!meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionAwake)
	if left := list[*corev1.Pod](s.source); relies && len(left) > 0 && s.failed() == nil {
		s.violate("the end of %s is not confirmed", left[0].Name)
	}
	s.cut = false
	s.goOn(3 * time.Minute)
	s.guard.crash(errCrash)
	s.guard = s.newGuard()
	s.spared = true
	s.goOn(5 * time.Minute)
	if !s.sources[0].acts() && s.failed() == nil {
		s.violate("nobody takes the Lease")
	}
}

// goOn lets everything go on for some time.
func (s *siege) goOn(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && s.failed() == nil; {
		if !s.sources[0].leader.alive() { // It was about to stop.
			s.nextLeader()
		}
		for range 200 {
			all := s.progress()
			if len(all) == 0 {
				break
			}
			all[0].do()
			s.rest()
		}
		s.pass(time.Second)
	}
}

// notice notes the situations in which a step is done.
func (s *siege) notice(label string) {
	note := func(situation string, yes bool) { s.reached[situation] = s.reached[situation] || yes }
	fenced := slices.ContainsFunc(list[*v1alpha1.PodChaperon](s.target), func(c *v1alpha1.PodChaperon) bool {
		return slices.ContainsFunc(c.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Reason == v1alpha1.ReasonDelegateFenced
		})
	})
	note("a delegate is fenced", fenced)
	note("the source is heard again after a delegate was fenced", fenced && s.sources[0].acts() && !s.cut)
	crashes := label == "the target's manager crashes"
	note("the target's manager crashes while it does not hear of the source", crashes && s.silence() > 30*time.Second)
	note("the source's leader changes while the target is cut off", label == "the source's next leader begins" && s.cut)
	note("a delegate is fenced, by a clock that is an hour ahead", fenced && s.target.ahead > 0)
	note("a delegate is fenced, by a clock that is an hour behind", fenced && s.target.ahead < 0)
	note("the end of a pod is confirmed", false)
	note("the end of a pod is confirmed, and fencing holds", false)
}
