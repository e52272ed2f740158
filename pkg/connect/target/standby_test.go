package target

import (
	"errors"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// remembers returns the epoch of the target that a process has seen.
func remembers(t *testing.T, process *hold.Process) int64 {
	t.Helper()
	lease := leaseNamed("another")
	_, err := process.Acquire(t.Context(), t.Context(), hold.Request{
		Target: keyC2, Lease: client.ObjectKeyFromObject(lease), Client: clientOf(t, lease),
	})
	if back := (*hold.TurnedBackError)(nil); errors.As(err, &back) {
		return back.Remembered
	}
	return 0
}

// ofEpoch sets the epoch of a Lease.
func ofEpoch(lease *coordinationv1.Lease, epoch string) *coordinationv1.Lease {
	lease.Annotations = map[string]string{v1alpha1.AnnotationEpoch: epoch}
	return lease
}

func TestAWatchOfAStandbyEndsWithItsEvents(t *testing.T) {
	for name, send := range map[string]func(*apiwatch.FakeWatcher){
		"the stream ends":   func(w *apiwatch.FakeWatcher) { w.Stop() },
		"an error is sent":  func(w *apiwatch.FakeWatcher) { w.Error(&metav1.Status{}) },
		"something is sent": func(w *apiwatch.FakeWatcher) { w.Add(&corev1.Pod{}) },
	} {
		r := newReaching(t, keyC2)
		r.options.Holds = hold.New(hold.Options{ClusterID: "c1", Name: "manager", Clock: r.clock})
		s := &standby{connections: r.connections}
		events, ended := apiwatch.NewFake(), make(chan error, 1)
		go func() { ended <- s.note(t.Context(), keyC2, events) }()
		events.Modify(ofEpoch(leaseNamed("us"), "5"))
		send(events)
		if err := waittest.Receive(t, "the end", ended); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := remembers(t, r.options.Holds); got < 5 {
			t.Errorf("%s: the epoch that was seen is %d", name, got)
		}
	}
}
