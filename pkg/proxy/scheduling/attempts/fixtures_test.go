package attempts

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// world is Attempts with a fake clock.
type world struct {
	*Attempts
	clock schedulingtest.Clock
	// lifted are the pods for which time has lifted an exclusion.
	lifted chan types.UID
}

func newWorld() *world {
	w := &world{clock: schedulingtest.NewClock(), lifted: make(chan types.UID, 10)}
	w.Attempts = New(w.clock, func(_ types.NamespacedName, pod types.UID) { w.lifted <- pod })
	return w
}

// refuse notes that the target of a node has refused the pod because it is full.
func (w *world) refuse(pod types.UID, nodeName string, backOff BackOff) {
	w.Failed(schedulingtest.NewPod(pod, nil), Failure{
		NodeName: nodeName, Refused: true, Reason: "full", BackOff: backOff,
	})
}

// expectLifted waits until time has lifted an exclusion, which must be this pod's.
func (w *world) expectLifted(t testing.TB, pod types.UID) {
	t.Helper()
	if got := waittest.Receive(t, "the end of an exclusion", w.lifted); got != pod {
		t.Errorf("an exclusion was lifted for %q, want %q", got, pod)
	}
}

// expectNothingDue fails unless a timer is running. The function of a timer whose time has come runs in a goroutine of
// its own, so its effect may show too late to be noticed.
func (w *world) expectNothingDue(t testing.TB) {
	t.Helper()
	if !w.clock.HasWaiters() {
		t.Error("the timer of an exclusion has ended too early")
	}
}

// of returns what is known of a pod.
func (w *world) of(t testing.TB, pod types.UID) Memory {
	t.Helper()
	memory, err := w.Of(schedulingtest.NewPod(pod, nil))
	if err != nil {
		t.Fatal(err)
	}
	return memory
}

// leftOut returns why targets are left out for a pod.
func (w *world) leftOut(t testing.TB, pod types.UID) map[string]string {
	t.Helper()
	return w.of(t, pod).LeftOut
}
