package scheduling

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
)

// sized returns a pod that was created at a second and requests CPUs.
func sized(uid types.UID, second int64, cpu string) *corev1.Pod {
	pod := newPod(uid, list("cpu", cpu))
	pod.Name, pod.CreationTimestamp = string(uid), metav1.NewTime(time.Unix(second, 0))
	return pod
}

// schedule runs what the scheduler runs for a pod, and returns the reason why the last target does not get the pod, if
// none does.
func (w *world) schedule(t *testing.T, pod *corev1.Pod, all ...*target) (reason string) {
	t.Helper()
	state := framework.NewCycleState()
	if _, status := w.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	for _, at := range all {
		status := w.Filter(t.Context(), state, pod, newNode(at.NodeName, resources("8", "64Gi")))
		if !status.IsSuccess() {
			reason = status.Message()
			continue
		}
		if status := w.Reserve(t.Context(), state, pod, at.NodeName); !status.IsSuccess() {
			t.Fatal(status)
		}
		return ""
	}
	_, _ = w.PostFilter(t.Context(), state, pod, nil)
	return reason
}

const keeps = "keeps its room for a pod that has waited longer"

func TestATargetKeepsItsRoomForAPodThatSmallerOnesOvertook(t *testing.T) {
	for name, test := range map[string]struct {
		waits time.Duration
		taker *corev1.Pod
		next  *corev1.Pod
		want  string
	}{
		"a smaller, younger pod": {keepAfter, sized("taker", 20, "1"), sized("next", 30, "1"), keeps},
		"too early":              {keepAfter - 1, sized("taker", 20, "1"), sized("next", 30, "1"), ""},
		"an older pod took room": {keepAfter, sized("taker", 5, "1"), sized("next", 30, "1"), ""},
		"an equal pod took room": {keepAfter, sized("taker", 20, "8"), sized("next", 30, "1"), ""},
		"a more important pod took room": {
			keepAfter, important(sized("taker", 20, "1")), sized("next", 30, "1"), "",
		},
		"no pod took room":   {keepAfter, nil, sized("next", 30, "1"), ""},
		"an older pod comes": {keepAfter, sized("taker", 20, "1"), sized("next", 5, "1"), ""},
		"a more important pod comes": {
			keepAfter, sized("taker", 20, "1"), important(sized("next", 30, "1")), "",
		},
		"a pod comes whose delegate is there": {keepAfter, sized("taker", 20, "1"), sized("there", 30, "1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1 := w.engage(t, "c1", interceptor.Funcs{})
			w.placer.Delegates.Seen(c1.Target, newChaperon("c", "there"))
			big := sized("big", 10, "8")
			c1.Ledger.Update(summary(resources("4", "64Gi")))
			if reason := w.schedule(t, big, c1); reason == "" || reason == keeps {
				t.Fatalf("the big pod: %q", reason)
			}
			w.clock.Step(test.waits)
			if test.taker != nil {
				w.keeping.takes(c1.NodeName, test.taker, w.demandOf(t, test.taker))
			}
			_ = w.schedule(t, big, c1)
			if reason := w.schedule(t, test.next, c1); reason != test.want {
				t.Errorf("the next pod: %q, want %q", reason, test.want)
			}
		})
	}
}

func TestATargetKeepsNoRoomForAPodThatItCannotHave(t *testing.T) {
	for name, test := range map[string]struct {
		cpu     string
		happens func(w *world, big *corev1.Pod, c1 *target)
	}{
		"no node is big enough": {"65", func(*world, *corev1.Pod, *target) {}},
		"the target has refused it": {"8", func(w *world, big *corev1.Pod, c1 *target) {
			w.refuse(big, c1.NodeName, attempts.FixedTime, "refused: quota")
		}},
		"it can be tried there": {"8", func(w *world, _ *corev1.Pod, c1 *target) {
			w.withPolicy(c1, &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, big := w.engage(t, "c1", interceptor.Funcs{}), sized("big", 10, test.cpu)
			c1.Ledger.Update(summary(resources("4", "64Gi")))
			_ = w.schedule(t, big, c1)
			w.clock.Step(keepAfter)
			small := sized("small", 20, "1")
			w.keeping.takes(c1.NodeName, small, w.demandOf(t, small))
			test.happens(w, big, c1)
			_ = w.schedule(t, big, c1)
			if w.keeping.forOther(c1.NodeName, small) {
				t.Error("it keeps its room")
			}
		})
	}
}

// keptFor returns a world in which a target keeps its room for a big pod.
func keptFor(t *testing.T) (w *world, c1 *target, big *corev1.Pod) {
	t.Helper()
	w = newWorld()
	c1, big = w.engage(t, "c1", interceptor.Funcs{}), sized("big", 10, "8")
	c1.Ledger.Update(summary(resources("4", "64Gi")))
	_ = w.schedule(t, big, c1)
	w.clock.Step(keepAfter)
	small := sized("small", 20, "1")
	w.keeping.takes(c1.NodeName, small, w.demandOf(t, small))
	_ = w.schedule(t, big, c1)
	if reason := w.schedule(t, sized("next", 30, "1"), c1); reason != keeps {
		t.Fatalf("the next pod: %q", reason)
	}
	return w, c1, big
}

func TestATargetTakesAllPodsAgain(t *testing.T) {
	for name, happens := range map[string]func(w *world, big *corev1.Pod){
		"when it came no nearer":        func(w *world, _ *corev1.Pod) { w.clock.Step(keepPatience) },
		"when the pod is bound or gone": func(w *world, big *corev1.Pod) { w.concluded(big.UID) },
	} {
		t.Run(name, func(t *testing.T) {
			w, c1, big := keptFor(t)
			next := sized("next", 30, "1")
			happens(w, big)
			eventually(t, "the end", func() bool { return !w.keeping.forOther(c1.NodeName, next) })
			if reason := w.schedule(t, next, c1); reason != "" {
				t.Errorf("the next pod: %q", reason)
			}
		})
	}
}

func TestATargetThatComesNearerKeepsItsRoomUntilTheTimeIsOver(t *testing.T) {
	w, c1, big := keptFor(t)
	next := sized("next", 30, "1")
	looks := int(keepFor / keepPatience)
	for i := range looks {
		if reason := w.schedule(t, next, c1); reason != keeps {
			t.Fatalf("the next pod after %d looks: %q", i, reason)
		}
		c1.Ledger.Update(summary(resources(fmt.Sprintf("%dm", 4100+100*i), "64Gi")))
		timers := w.clock.Waiters()
		w.clock.Step(keepPatience)
		eventually(t, "the look", func() bool {
			return w.clock.Waiters() == timers || !w.keeping.forOther(c1.NodeName, next)
		})
	}
	if w.keeping.keepsFor(c1.NodeName, big.UID) {
		t.Error("it keeps its room for longer")
	}
}

func TestABigPodHearsWhereRoomIsKept(t *testing.T) {
	w, c1, big := keptFor(t)
	if reason := w.schedule(t, big, c1); !strings.HasSuffix(reason, "; it keeps its room for this pod") {
		t.Errorf("the big pod: %q", reason)
	}
}

func TestABigPodGetsTheRoomThatIsKept(t *testing.T) {
	w, c1, big := keptFor(t)
	c1.Ledger.Update(summary(resources("8", "64Gi")))
	if reason := w.schedule(t, big, c1); reason != "" {
		t.Errorf("the big pod: %q", reason)
	}
}

func TestATargetKeepsNoRoomForAPodThatIsNotComparedWithIt(t *testing.T) {
	for name, filtered := range map[string]bool{"another plugin rejects its node": true, "the pod waits": false} {
		w := newWorld()
		c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
		for _, at := range []*target{c1, c2} {
			at.Ledger.Update(summary(resources("4", "64Gi")))
		}
		big, small := sized("big", 10, "8"), sized("small", 20, "1")
		for range 2 {
			state := framework.NewCycleState()
			if _, status := w.PreFilter(t.Context(), state, big, nil); !status.IsSuccess() {
				t.Fatal(status)
			}
			if filtered {
				_ = w.Filter(t.Context(), state, big, newNode(c2.NodeName, resources("8", "64Gi")))
			}
			_, _ = w.PostFilter(t.Context(), state, big, nil)
			w.clock.Step(keepAfter)
			w.keeping.takes(c1.NodeName, small, w.demandOf(t, small))
		}
		if w.keeping.forOther(c1.NodeName, small) {
			t.Errorf("%s, and it keeps its room", name)
		}
	}
}

func TestATargetPausesBeforeItKeepsItsRoomAgain(t *testing.T) {
	w, c1, big := keptFor(t)
	w.clock.Step(keepPatience)
	next := sized("next", 30, "1")
	eventually(t, "the end", func() bool { return !w.keeping.forOther(c1.NodeName, next) })
	keepsAgain := func() bool {
		t.Helper()
		w.keeping.takes(c1.NodeName, next, w.demandOf(t, next))
		_ = w.schedule(t, big, c1)
		return w.keeping.forOther(c1.NodeName, next)
	}
	if w.clock.Step(keepPauses*keepPatience - 1); keepsAgain() {
		t.Error("it keeps its room again too early")
	}
	if w.clock.Step(1); !keepsAgain() {
		t.Error("it does not keep its room again")
	}
}

func TestHalfOfTheTargetsTakeAllPods(t *testing.T) {
	w := newWorld()
	var all []*target
	for _, name := range []string{"c1", "c2", "c3", "c4", "c5"} {
		full := w.engage(t, name, interceptor.Funcs{})
		full.Ledger.Update(summary(resources("4", "64Gi")))
		all = append(all, full)
	}
	uids, small := []types.UID{"first", "first", "second", "third"}, sized("small", 20, "1")
	for _, uid := range uids {
		_ = w.schedule(t, sized(uid, 10, "8"), all...)
	}
	w.clock.Step(keepAfter)
	for _, at := range all {
		w.keeping.takes(at.NodeName, small, w.demandOf(t, small))
	}
	for i, want := range []int{1, 1, 2, 2} {
		_ = w.schedule(t, sized(uids[i], 10, "8"), all...)
		kept := 0
		for _, at := range all {
			if w.keeping.forOther(at.NodeName, small) {
				kept++
			}
		}
		if kept != want {
			t.Errorf("after the %s pod, %d targets keep their room, want %d", uids[i], kept, want)
		}
	}
}

func TestAPodThatFitsNowhereHasOneTimerHoweverOftenItIsScheduled(t *testing.T) {
	for name, begin := range map[string]func(w *world, c1 *target){
		"while a target keeps its room for it": func(*world, *target) {},
		"while the target pauses": func(w *world, c1 *target) {
			w.clock.Step(keepPatience)
			eventually(t, "the end", func() bool { return !w.keeping.forOther(c1.NodeName, sized("next", 30, "1")) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, c1, big := keptFor(t)
			begin(w, c1)
			_ = w.schedule(t, big, c1)
			timers := w.clock.Waiters()
			for range 50 {
				_ = w.schedule(t, big, c1)
			}
			if now := w.clock.Waiters(); now != timers {
				t.Errorf("%d timers, and %d after 50 attempts more", timers, now)
			}
		})
	}
}

func TestAPodThatFitsNowhereIsScheduledAgainUntilItIsForgotten(t *testing.T) {
	clock, looks := schedulingtest.NewClock(), make(chan struct{}, 1)
	k, look := newKeeping(clock), func() { looks <- struct{}{} }
	if k.lookAgain("stranger", look); clock.HasWaiters() {
		t.Error("a pod of which nothing is known has a timer")
	}
	k.fitsNowhere("p")
	for range 2 {
		k.lookAgain("p", look)
		clock.Step(keepAfter)
		receive(t, "the pod is scheduled again", looks)
	}
	k.lookAgain("p", look)
	if k.forget("p"); clock.HasWaiters() {
		t.Error("a pod that is forgotten has a timer")
	}
}

func TestWhatWasTakenBeforeAPodWaitedDoesNotCount(t *testing.T) {
	small, big := sized("small", 20, "1"), sized("big", 10, "8")
	w := newWorld()
	last := taker{at: time.Unix(100, 0), created: small.CreationTimestamp, demand: w.demandOf(t, small)}
	for second, want := range map[int64]bool{99: true, 100: false} {
		if got := last.overtook(big, w.demandOf(t, big), time.Unix(second, 0)); got != want {
			t.Errorf("a pod that waits since second %d was overtaken: %t", second, got)
		}
	}
}

func TestTheFirstOfEqualTargetsKeepsItsRoom(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		w, big, small := newWorld(), sized("big", 10, "8"), sized("small", 20, "1")
		var all, ordered []*target
		for _, name := range []string{"c1", "c2", "c3"} {
			all = append(all, w.engage(t, name, interceptor.Funcs{}))
		}
		since := w.clock.Now()
		w.clock.Step(time.Second)
		for _, i := range order {
			ordered = append(ordered, all[i])
			w.keeping.takes(all[i].NodeName, small, w.demandOf(t, small))
		}
		if got, _ := w.keeping.keep(big, w.demandOf(t, big), since, ordered, len(all)); got != all[0] {
			t.Errorf("in the order %v it is %v", order, got)
		}
	}
}

func TestTheTargetThatPausedFirstKeepsItsRoom(t *testing.T) {
	w, big, small := newWorld(), sized("big", 10, "8"), sized("small", 20, "1")
	c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
	since, demand := w.clock.Now(), w.demandOf(t, big)
	keeps := func(of ...*target) *target {
		w.clock.Step(time.Second)
		for _, at := range of {
			w.keeping.takes(at.NodeName, small, w.demandOf(t, small))
		}
		got, _ := w.keeping.keep(big, demand, since, of, 2)
		w.clock.Step(time.Second)
		w.keeping.release(big.UID)
		w.clock.Step(time.Hour)
		return got
	}
	if got := []*target{keeps(c2), keeps(c1), keeps(c1, c2)}; !slices.Equal(got, []*target{c2, c1, c2}) {
		t.Errorf("these kept their room: %v", got)
	}
}

func TestAnotherPodDoesNotEndWhatIsKept(t *testing.T) {
	w, c1, _ := keptFor(t)
	w.keeping.takes("another", sized("small", 20, "1"), nil)
	w.concluded("stranger")
	if !w.keeping.forOther(c1.NodeName, sized("next", 30, "1")) {
		t.Error("the target takes all pods")
	}
}

func TestPodsAreWokenWhenATargetTakesAllAgain(t *testing.T) {
	w, c1, big := keptFor(t)
	pods := &playedQueue{}
	w.waker.started(pods, klog.Background())
	w.concluded(big.UID)
	w.clock.Step(gather)
	eventually(t, "the pods are woken", func() bool { return pods.count(c1) == 1 })
}
