package fit

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// TestAQueuedPodTakesNoRoomUntilItIsLetThrough has a node with 8 CPUs, and a pod of 3 CPUs that was placed there.
func TestAQueuedPodTakesNoRoomUntilItIsLetThrough(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(l *Ledger)
		free    int
		queues  bool
	}{
		"the pod is being admitted": {func(*Ledger) {}, 5, false},
		"the pod is queued":         {func(l *Ledger) { l.Queue(first, "a") }, 8, true},
		"the pod is let through": {func(l *Ledger) {
			l.Queue(first, "a")
			if !l.Unqueue(first) || l.Unqueue(first) {
				t.Error("it is not said once that the pod was queued")
			}
		}, 5, false},
		"the pod is withdrawn": {func(l *Ledger) {
			l.Queue(first, "a")
			l.Remove(first)
		}, 8, false},
		"the pod is let through and counted": {func(l *Ledger) {
			l.Queue(first, "a")
			l.Update(counting(withFree(5), "11111111"))
		}, 5, false},
		"another summary comes": {func(l *Ledger) {
			l.Queue(first, "a")
			l.Update(withFree(7))
		}, 7, true},
		"nothing is known of the pod": {func(l *Ledger) { l.Queue(second, "a") }, 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLedger("source", testingclock.NewFakePassiveClock(time.Unix(0, 0)))
			l.Update(withFree(8))
			l.Place(first, cpus(3))
			test.happens(l)
			if got := freeCPUs(l); got != test.free {
				t.Errorf("%d CPUs are free, want %d", got, test.free)
			}
			if got := l.Queues("a", cpus(3)); got != test.queues {
				t.Errorf("there is a queue: %t, want %t", got, test.queues)
			}
		})
	}
}

func TestWhichPodsWouldWaitBehindAQueuedPod(t *testing.T) {
	l := NewLedger("source", testingclock.NewFakePassiveClock(time.Unix(0, 0)))
	l.Update(withFree(8))
	l.Place(first, demands("cpu=3 nvidia.com/gpu=1", translate.Constraints{}))
	l.Queue(first, "a")
	for name, test := range map[string]struct {
		namespace string
		demand    *Demand
		want      bool
	}{
		"an equal pod":               {"a", demands("cpu=3 nvidia.com/gpu=1", translate.Constraints{}), true},
		"a bigger pod":               {"a", demands("cpu=4 nvidia.com/gpu=1", translate.Constraints{}), true},
		"a smaller pod":              {"a", demands("cpu=2 nvidia.com/gpu=1", translate.Constraints{}), false},
		"a pod without a GPU":        {"a", demands("cpu=4 memory=1Gi", translate.Constraints{}), false},
		"a pod of another namespace": {"b", demands("cpu=3 nvidia.com/gpu=1", translate.Constraints{}), false},
	} {
		if got := l.Queues(test.namespace, test.demand); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
