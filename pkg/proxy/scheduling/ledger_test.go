package scheduling

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func asking(requests corev1.ResourceList) *fit.Demand {
	return fit.NewDemand(newPod("p", requests), translate.Constraints{})
}

// freeCPUs are the whole CPUs that one pod could still have.
func freeCPUs(l *ledger) int {
	for cpus := 9; cpus > 0; cpus-- {
		if l.room().Fits(asking(list("cpu", string(rune('0'+cpus))))) {
			return cpus
		}
	}
	return 0
}

const (
	first  types.UID = "11111111-0000"
	second types.UID = "22222222-0000"
)

// TestWhatIsPlacedIsSubtractedOnce has a node with 8 CPUs, and two pods of 1 and 2 CPUs placed there.
func TestWhatIsPlacedIsSubtractedOnce(t *testing.T) {
	type event struct {
		name string
		do   func(l *ledger)
	}
	events := []event{
		{"the first is seen scheduled", func(l *ledger) { l.scheduled(first) }},
		{"the second is seen scheduled", func(l *ledger) { l.scheduled(second) }},
		{"the first is counted", func(l *ledger) { l.tell(counting(summary(resources("7", "64Gi")), "11111111")) }},
		{"both are counted", func(l *ledger) { l.tell(counting(summary(resources("5", "64Gi")), "11111111", "22222222")) }},
	}
	for order := range permutations(events) {
		if slices.IndexFunc(order, func(e event) bool { return e.name == "both are counted" }) <
			slices.IndexFunc(order, func(e event) bool { return e.name == "the first is counted" }) {
			continue // Summaries do not go back.
		}
		l := newLedger("source", testingclock.NewFakePassiveClock(time.Unix(0, 0)))
		l.tell(summary(resources("8", "64Gi")))
		l.place(first, asking(list("cpu", "1")))
		l.place(second, asking(list("cpu", "2")))
		var story []string
		for _, e := range order {
			story = append(story, e.name)
			e.do(l)
			if got := freeCPUs(l); got != 5 {
				t.Errorf("after %q, %d CPUs are free, want 5", story, got)
			}
		}
		if len(l.unseen) > 0 {
			t.Errorf("after %q, %d pods are not seen", story, len(l.unseen))
		}
	}
}

func permutations[T any](of []T) func(yield func([]T) bool) {
	return func(yield func([]T) bool) { permute(of, len(of), yield) }
}

// permute the first n by Heap's algorithm.
func permute[T any](of []T, n int, yield func([]T) bool) bool {
	if n <= 1 {
		return yield(of)
	}
	for i := range n {
		if !permute(of, n-1, yield) {
			return false
		}
		j := 0
		if n%2 == 0 {
			j = i
		}
		of[j], of[n-1] = of[n-1], of[j]
	}
	return true
}

func TestLedger(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(l *ledger, clock *testingclock.FakePassiveClock)
		want    int
	}{
		"nothing is known": {func(l *ledger, _ *testingclock.FakePassiveClock) { l.tell(nil) }, 0},
		"a pod is placed before anything is known": {func(l *ledger, _ *testingclock.FakePassiveClock) {
			l.tell(nil)
			l.place(first, asking(list("cpu", "1")))
			l.tell(summary(resources("8", "64Gi")))
		}, 7},
		"a pod is placed twice": {func(l *ledger, _ *testingclock.FakePassiveClock) {
			l.place(first, asking(list("cpu", "1")))
			l.place(first, asking(list("cpu", "1")))
		}, 7},
		"a pod is placed that is counted already": {func(l *ledger, _ *testingclock.FakePassiveClock) {
			l.tell(counting(summary(resources("8", "64Gi")), "11111111"))
			l.place(first, asking(list("cpu", "1")))
		}, 8},
		"another source's pod is counted": {func(l *ledger, _ *testingclock.FakePassiveClock) {
			l.place(first, asking(list("cpu", "1")))
			of := counting(summary(resources("8", "64Gi")), "11111111")
			of.Status.Sources[0].ClusterID = "other"
			l.tell(of)
		}, 7},
		"a pod is refused": {func(l *ledger, _ *testingclock.FakePassiveClock) {
			l.place(first, asking(list("cpu", "1")))
			l.place(second, asking(list("cpu", "2")))
			if !l.remove(first) || l.remove(first) {
				t.Error("it made room not once")
			}
		}, 6},
		"a scheduled pod is not listed": {func(l *ledger, clock *testingclock.FakePassiveClock) {
			l.place(first, asking(list("cpu", "1")))
			l.scheduled(first)
			clock.SetTime(clock.Now().Add(countedAfter))
			l.scheduled(first)
			l.tell(summary(resources("8", "64Gi")))
		}, 7},
		"a scheduled pod has not been listed for long": {func(l *ledger, clock *testingclock.FakePassiveClock) {
			l.place(first, asking(list("cpu", "1")))
			l.scheduled(first)
			clock.SetTime(clock.Now().Add(countedAfter + 1))
			l.tell(summary(resources("7", "64Gi")))
		}, 7},
		"a pod that waits for a node is not counted by and by": {func(l *ledger, clock *testingclock.FakePassiveClock) {
			l.place(first, asking(list("cpu", "1")))
			clock.SetTime(clock.Now().Add(time.Hour))
			l.tell(summary(resources("8", "64Gi")))
		}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testingclock.NewFakePassiveClock(time.Unix(0, 0))
			l := newLedger("source", clock)
			l.tell(summary(resources("8", "64Gi")))
			test.happens(l, clock)
			if got := freeCPUs(l); got != test.want {
				t.Errorf("%d CPUs are free, want %d", got, test.want)
			}
		})
	}
}

func TestASummaryThatCountsWhatWasPlacedIsNoNews(t *testing.T) {
	l := newLedger("source", testingclock.NewFakePassiveClock(time.Unix(0, 0)))
	if !l.tell(summary(resources("8", "64Gi"))) {
		t.Error("the first summary is no news")
	}
	l.place(first, asking(list("cpu", "1")))
	if l.tell(counting(summary(list("cpu", "7", "memory", "64Gi", "pods", "499")), "11111111")) {
		t.Error("that the pod is counted is news")
	}
	if !l.tell(summary(resources("8", "64Gi"))) {
		t.Error("that the pod is gone is no news")
	}
}
