package hold

import (
	"testing"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// The next leader's clock may be an hour behind that of the last one, or ahead.
func TestTheNextLeaderWaitsByItsOwnClock(t *testing.T) {
	for name, back := range map[string]time.Duration{"behind": time.Hour, "ahead": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				crash(w.hold(w.leader("a", &etcd{}), w.request()))
				stepping := &steppingClock{}
				stepping.back.Store(int64(back))
				other := New(Options{ClusterID: "c1", Name: "b", Clock: stepping, OwnLease: &etcd{}})
				other.Lead()
				next := w.acquire(other, w.request())
				took := w.pass(time.Minute, func() bool { return len(next) > 0 })
				if took < timeouts.HoldDuration || took > timeouts.HoldDuration+lookInterval+time.Second {
					w.Fatalf("it took over after %s", took)
				}
				a := <-next
				if a.err != nil {
					w.Fatal(a.err)
				}
				w.pass(time.Minute, never)
				if a.hold.Context().Err() != nil || a.hold.Failed() != nil {
					w.Errorf("it does not keep the Lease: %v", a.hold.Failed())
				}
			})
		})
	}
}
