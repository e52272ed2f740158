package scheduling

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
)

// gated is the status of a PodChaperon whose delegate is held back.
var gated = schedulingtest.With(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated, "")

func TestWhenOtherTargetsMayTakeAPodThatWaits(t *testing.T) {
	for name, test := range map[string]struct {
		wait  placement.Wait
		looks int
		since time.Duration // the pod has waited
		moves int
		want  time.Duration
	}{
		"at once":                              {wait: placement.Growing},
		"after one look in vain":               {placement.Growing, 1, 0, 0, time.Second},
		"after two looks in vain":              {placement.Growing, 2, 0, 0, 2 * time.Second},
		"after six looks in vain":              {placement.Growing, 6, 0, 0, 32 * time.Second},
		"after seven looks in vain":            {placement.Growing, 7, 0, 0, time.Minute},
		"after a thousand looks in vain":       {placement.Growing, 1000, 0, 0, time.Minute},
		"behind gates":                         {placement.Gated, 0, 0, 0, 20 * time.Second},
		"behind gates, for a while":            {placement.Gated, 0, 5 * time.Second, 0, 15 * time.Second},
		"behind gates, for long":               {placement.Gated, 0, time.Hour, 0, 0},
		"behind gates, after looks in vain":    {placement.Gated, 3, 18 * time.Second, 0, 4 * time.Second},
		"behind gates, where it was before":    {placement.Gated, 0, 0, 2, 80 * time.Second},
		"behind gates, where it often was":     {placement.Gated, 0, 0, 20, 1024 * 20 * time.Second},
		"behind gates, and the longer decides": {placement.Gated, 6, 0, 0, 32 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := newWorld(), newPod("p", nil)
			c1 := w.engage(t, "c1", interceptor.Funcs{})
			for range test.moves {
				w.attempts.StayIn(pod, c1.NodeName)
				w.attempts.Moved(pod)
			}
			since := w.clock.Now()
			w.clock.Step(test.since)
			s := w.newStay(pod, c1, attempts.Stay{NodeName: c1.NodeName, Since: since, Looks: test.looks})
			w.waits(s, test.wait)
			if test.want > 0 {
				w.clock.Step(test.want - 1)
				if !w.clock.HasWaiters() || w.stays.of(pod.UID) != nil {
					t.Fatal("it is too early")
				}
				w.clock.Step(1)
				eventually(t, "other targets may take it", func() bool { return w.stays.of(pod.UID) == s })
			}
			if w.stays.of(pod.UID) != s || w.clock.HasWaiters() {
				t.Error("it is too late")
			}
		})
	}
}

func TestNoOtherTargetTakesAPodWhoseTargetDecides(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	s := w.newStay(pod, w.engage(t, "c1", interceptor.Funcs{}), attempts.Stay{})
	w.waits(s, placement.Growing)
	w.waits(s, placement.Undecided)
	if w.stays.of(pod.UID) != nil || len(w.stays.byPod) > 0 {
		t.Error("another target may take it")
	}
	w.waits(s, placement.Gated)
	if w.waits(s, placement.Undecided); w.clock.HasWaiters() {
		t.Error("another target may take it later")
	}
}

func TestOthersAreWokenWhenAPodIsLetThroughAQueue(t *testing.T) {
	for name, test := range map[string]struct {
		queued bool
		wait   placement.Wait
		want   int
	}{
		"it was queued, and is let through":     {true, placement.Undecided, 1},
		"it was not queued, and is let through": {false, placement.Undecided, 0},
		"it is held back":                       {true, placement.Gated, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, pods, pod := newWorld(), &playedQueue{}, newPod("p", list("cpu", "1"))
			w.waker.started(pods, klog.Background())
			c1 := w.engage(t, "c1", interceptor.Funcs{})
			c1.Ledger.Place(pod.UID, w.demandOf(t, pod))
			if test.queued {
				c1.Ledger.Queue(pod.UID, pod.Namespace)
			}
			s := w.newStay(pod, c1, attempts.Stay{Since: w.clock.Now()})
			s.wait = placement.Growing
			w.waits(s, test.wait)
			if queues := c1.Ledger.Queues(pod.Namespace, w.demandOf(t, pod)); queues != (test.wait == placement.Gated) {
				t.Errorf("it waits in a queue: %t", queues)
			}
			w.clock.Step(gather)
			eventually(t, "others are woken", func() bool { return pods.count(c1) == test.want })
		})
	}
}

func TestAnEarlierStayDoesNotEndTheNext(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
	earlier, next := w.newStay(pod, c1, attempts.Stay{}), w.newStay(pod, c2, attempts.Stay{})
	w.stays.begin(earlier, time.Second, func() { t.Error("the earlier stay opens") })
	w.stays.begin(next, 0, func() {})
	w.clock.Step(time.Second)
	w.stays.end(earlier)
	if w.stays.of(pod.UID) != next {
		t.Error("the next stay has ended")
	}
	if got := w.stays.elsewhere(c1); len(got) != 1 || got[0] != pod {
		t.Errorf("c1 may take %v", got)
	}
	if got := w.stays.elsewhere(c2); len(got) > 0 {
		t.Errorf("c2 may take %v from itself", got)
	}
	if w.stays.end(next); w.stays.of(pod.UID) != nil {
		t.Error("it has not ended")
	}
}

func TestThePodsThatATargetMayTakeAreInOrder(t *testing.T) {
	w := newWorld()
	c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
	for i, uid := range []types.UID{"third", "fourth", "first", "second", "later"} {
		pod := newPod(uid, nil)
		pod.CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
		if uid == "first" || uid == "second" {
			pod = important(pod)
		}
		after := time.Duration(0)
		if uid == "later" {
			after = time.Hour
		}
		w.stays.begin(w.newStay(pod, c1, attempts.Stay{}), after, func() {})
	}
	var got []types.UID
	for _, pod := range w.stays.elsewhere(c2) {
		got = append(got, pod.UID)
	}
	if !slices.Equal(got, []types.UID{"first", "second", "third", "fourth"}) {
		t.Errorf("got %v", got)
	}
}

// TestWhoIsInvited has a pod that waits in c1, and looks elsewhere itself.
func TestWhoIsInvited(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(w *world, pod *corev1.Pod, c2 *target)
		want    bool
	}{
		"another target has room": {func(*world, *corev1.Pod, *target) {}, true},
		"another target has none": {func(_ *world, _ *corev1.Pod, c2 *target) {
			c2.Ledger.Update(summary(resources("0", "64Gi")))
		}, false},
		"only its own target has room": {func(w *world, _ *corev1.Pod, c2 *target) {
			c2.Ledger.Update(summary(resources("0", "64Gi")))
			w.targets.get("admiralty-c1").Ledger.Update(summary(resources("8", "64Gi")))
		}, false},
		"another target is left out": {func(w *world, pod *corev1.Pod, c2 *target) {
			w.attempts.Failed(pod, attempts.Failure{NodeName: "admiralty-c1", Refused: true})
			w.refuse(pod, c2.NodeName, attempts.FixedTime, "quota")
		}, false},
		"another target is lost": {
			func(w *world, _ *corev1.Pod, c2 *target) { w.registry.Lose(c2.Target.Target) }, false,
		},
		"the pod may not move yet": {func(w *world, pod *corev1.Pod, _ *target) {
			w.stays.end(w.stays.of(pod.UID))
		}, false},
		"the pod's constraints are unreadable": {func(_ *world, pod *corev1.Pod, _ *target) {
			pod.Annotations[v1alpha1.AnnotationOriginalConstraints] = "?"
		}, false},
	} {
		for who, looks := range map[string]func(w *world, pod *corev1.Pod, c2 *target){
			"the pod looks":             func(w *world, pod *corev1.Pod, _ *target) { w.look(pod.UID) },
			"the other one offers room": func(w *world, _ *corev1.Pod, c2 *target) { w.offer(c2) },
		} {
			t.Run(name+", and "+who, func(t *testing.T) {
				w, pod := newWorld(), newPod("p", list("cpu", "1"))
				c1, c2 := w.growing(t, "c1"), w.engage(t, "c2", interceptor.Funcs{})
				w.placer.Delegates.Seen(c1.Target, newChaperon("c", pod.UID))
				w.stays.begin(w.newStay(pod, c1, attempts.Stay{}), 0, func() {})
				test.happens(w, pod, c2)
				if got := w.invites(t, pod, c1, func() { looks(w, pod, c2) }); got != test.want {
					t.Errorf("it is invited: %t, want %t", got, test.want)
				}
			})
		}
	}
}

// invites says whether something invites a pod that waits behind gates.
func (w *world) invites(t *testing.T, pod *corev1.Pod, in *target, does func()) bool {
	t.Helper()
	w.placer.Delegates.Seen(in.Target, newChaperon("c", pod.UID, gated))
	ctx, end := context.WithCancel(t.Context())
	defer end()
	waits, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := w.placer.Place(ctx, pod, in.Target, placement.Expectation{Waiting: func(placement.Wait, string) {
			select {
			case waits <- struct{}{}:
			case <-ctx.Done():
			}
		}})
		done <- err
	}()
	receive(t, "the wait", waits)
	does()
	w.placer.Delegates.Seen(in.Target, newChaperon("c", pod.UID, gated)) // So it waits again, unless it is invited.
	select {
	case err := <-done:
		return invited(err)
	case <-waits:
		return false
	}
}

func TestAPodThatIsNowhereDoesNotMove(t *testing.T) {
	w, pod := newWorld(), newPod("p", list("cpu", "1"))
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	c, err := w.newCycle(pod)
	if err != nil || c.prefers(pod, c1, c1.Ledger.Room()) || w.mayMove(c, pod) {
		t.Errorf("it moves: error %v", err)
	}
}

// TestAMoveIsReported has a pod that leaves c1, which is closed or not, for c2.
func TestAMoveIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		leaves  string
		waited  bool // under this leader
		moves   int
		samples int
	}{
		"it waited":                      {"", true, 1, 1},
		"it waited under another leader": {"", false, 0, 0},
		"its target takes no pods":       {"it is cordoned", true, 0, 1},
		"nor under the leader of before": {"it is cordoned", false, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := newWorld(), newPod("p", list("cpu", "1"))
			var c1 *target
			withdraw := func(
				context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption,
			) error {
				w.placer.Delegates.Gone(c1.Target, newChaperon("c", pod.UID))
				return nil
			}
			c1 = w.growingWith(t, "c1", interceptor.Funcs{Patch: withdraw})
			c2 := w.engage(t, "c2", interceptor.Funcs{})
			w.placer.Delegates.Seen(c1.Target, newChaperon("c", pod.UID, gated))
			if test.waited {
				w.attempts.StayIn(pod, c1.NodeName)
			}
			c, err := w.newCycle(pod)
			if err != nil {
				t.Fatal(err)
			}
			c.leaves = test.leaves
			if err := w.vacate(t.Context(), c, pod, c2); err != nil {
				t.Fatal(err)
			}
			reason := test.leaves
			if reason == "" {
				reason = "c2 has room"
			}
			all := w.attemptsOf(pod)
			if len(all) != 1 || all[0].Target != "c1" || all[0].Outcome != diagnosis.Moved || all[0].Reason != reason {
				t.Errorf("attempts: %+v", all)
			}
			if memory, err := w.attempts.Of(pod); err != nil || memory.Moves[c1.NodeName] != test.moves {
				t.Errorf("moves: %v, error %v", memory.Moves, err)
			}
			if got := w.samples(t); got != test.samples {
				t.Errorf("the metric has %d samples, want %d", got, test.samples)
			}
		})
	}
}

// samples returns how many placements were measured.
func (w *world) samples(t *testing.T) int {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := w.metrics.register(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for _, family := range families {
		for _, metric := range family.Metric {
			n += metric.GetHistogram().GetSampleCount()
		}
	}
	return int(n)
}

func TestManyChangesOfATargetWakePodsOnce(t *testing.T) {
	w, pods := newWorld(), &playedQueue{}
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	w.waker.target(c1) // Nobody is there yet.
	w.waker.pod(types.NamespacedName{Name: "p"}, "p")
	w.waker.started(pods, klog.Background())
	for round := range 2 {
		for range 10 {
			w.waker.targetSoon(c1)
		}
		if timers := w.clock.Waiters(); timers != 1 {
			t.Errorf("there are %d timers", timers)
		}
		w.clock.Step(gather)
		eventually(t, "pods are woken", func() bool { return pods.count(c1) == round+1 && !c1.waking.Load() })
	}
}
