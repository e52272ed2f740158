package fit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func cpus(n int) *Demand { return demands(fmt.Sprintf("cpu=%d", n), translate.Constraints{}) }

// withFree is the summary of a cluster whose one node has so many CPUs free.
func withFree(cpus int) *v1alpha1.ClusterSummary {
	return summaryOf(free(1, fmt.Sprintf("cpu=%d memory=64Gi pods=500", cpus)))
}

// counting the source's delegates by the prefixes of their UIDs.
func counting(summary *v1alpha1.ClusterSummary, pods ...string) *v1alpha1.ClusterSummary {
	summary.Status.Sources = []v1alpha1.SourceUsage{{ClusterID: "source", Latest: pods}}
	return summary
}

// freeCPUs are the whole CPUs that one pod could still have.
func freeCPUs(l *Ledger) int {
	for n := 9; n > 0; n-- {
		if l.Room().Fits(cpus(n)) {
			return n
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
		do   func(l *Ledger)
	}
	events := []event{
		{"the first is seen scheduled", func(l *Ledger) { l.Scheduled(first) }},
		{"the second is seen scheduled", func(l *Ledger) { l.Scheduled(second) }},
		{"the first is counted", func(l *Ledger) { l.Update(counting(withFree(7), "11111111")) }},
		{"both are counted", func(l *Ledger) { l.Update(counting(withFree(5), "11111111", "22222222")) }},
	}
	for order := range permutations(events) {
		if slices.IndexFunc(order, func(e event) bool { return e.name == "both are counted" }) <
			slices.IndexFunc(order, func(e event) bool { return e.name == "the first is counted" }) {
			continue // Summaries do not go back.
		}
		l := NewLedger("source", testingclock.NewFakePassiveClock(time.Unix(0, 0)))
		l.Update(withFree(8))
		l.Place(first, cpus(1))
		l.Place(second, cpus(2))
		var happened []string
		for _, e := range order {
			happened = append(happened, e.name)
			e.do(l)
			if got := freeCPUs(l); got != 5 {
				t.Errorf("after %q, %d CPUs are free, want 5", happened, got)
			}
		}
		if len(l.unseen) > 0 {
			t.Errorf("after %q, %d pods are not seen", happened, len(l.unseen))
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
		happens func(l *Ledger, clock *testingclock.FakePassiveClock)
		want    int
	}{
		"nothing is known": {func(l *Ledger, _ *testingclock.FakePassiveClock) { l.Update(nil) }, 0},
		"a pod is placed before anything is known": {func(l *Ledger, _ *testingclock.FakePassiveClock) {
			l.Update(nil)
			l.Place(first, cpus(1))
			l.Update(withFree(8))
		}, 7},
		"a pod is placed twice": {func(l *Ledger, _ *testingclock.FakePassiveClock) {
			l.Place(first, cpus(1))
			l.Place(first, cpus(1))
		}, 7},
		"a pod is placed that is counted already": {func(l *Ledger, _ *testingclock.FakePassiveClock) {
			l.Update(counting(withFree(8), "11111111"))
			l.Place(first, cpus(1))
		}, 8},
		"a pod that was counted is given to the target again": {func(l *Ledger, _ *testingclock.FakePassiveClock) {
			l.Place(first, cpus(1))
			l.Update(counting(withFree(7), "11111111"))
			l.Remove(first) // Its delegate is gone, and the next summary is yet to come.
			l.Place(first, cpus(1))
		}, 6},
		"a pod is placed that another summary counted": {func(l *Ledger, _ *testingclock.FakePassiveClock) {
			l.Update(counting(withFree(8), "11111111"))
			l.Update(withFree(8))
			l.Place(first, cpus(1))
		}, 7},
		"a pod is placed when the summary that counted it is gone": {
			func(l *Ledger, _ *testingclock.FakePassiveClock) {
				l.Update(counting(withFree(8), "11111111"))
				l.Update(nil)
				l.Place(first, cpus(1))
				l.Update(withFree(8))
			}, 7,
		},
		"another source's pod is counted": {func(l *Ledger, _ *testingclock.FakePassiveClock) {
			l.Place(first, cpus(1))
			summary := counting(withFree(8), "11111111")
			summary.Status.Sources[0].ClusterID = "other"
			l.Update(summary)
		}, 7},
		"a pod is refused": {func(l *Ledger, _ *testingclock.FakePassiveClock) {
			l.Place(first, cpus(1))
			l.Place(second, cpus(2))
			if !l.Remove(first) || l.Remove(first) {
				t.Error("it made room not once")
			}
		}, 6},
		"a scheduled pod is not listed yet": {func(l *Ledger, clock *testingclock.FakePassiveClock) {
			l.Place(first, cpus(1))
			l.Scheduled(first)
			clock.SetTime(clock.Now().Add(countedAfter))
			l.Scheduled(first)
			l.Update(withFree(8))
		}, 7},
		"a scheduled pod has not been listed for long": {func(l *Ledger, clock *testingclock.FakePassiveClock) {
			l.Place(first, cpus(1))
			l.Scheduled(first)
			clock.SetTime(clock.Now().Add(countedAfter + 1))
			l.Update(withFree(7))
		}, 7},
		"a pod that waits for a node keeps its entry": {func(l *Ledger, clock *testingclock.FakePassiveClock) {
			l.Place(first, cpus(1))
			clock.SetTime(clock.Now().Add(time.Hour))
			l.Update(withFree(8))
		}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testingclock.NewFakePassiveClock(time.Unix(0, 0))
			l := NewLedger("source", clock)
			l.Update(withFree(8))
			test.happens(l, clock)
			if got := freeCPUs(l); got != test.want {
				t.Errorf("%d CPUs are free, want %d", got, test.want)
			}
		})
	}
}

func TestASummaryThatCountsWhatWasPlacedIsNoNews(t *testing.T) {
	l := NewLedger("source", testingclock.NewFakePassiveClock(time.Unix(0, 0)))
	if !l.Update(withFree(8)) {
		t.Error("the first summary is no news")
	}
	l.Place(first, cpus(1))
	if l.Update(counting(summaryOf(free(1, "cpu=7 memory=64Gi pods=499")), "11111111")) {
		t.Error("that the pod is counted is news")
	}
	if !l.Update(withFree(8)) {
		t.Error("that the pod is gone is no news")
	}
}
