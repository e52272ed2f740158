package hold

import (
	"errors"
	"testing"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// The process of a leader is frozen, and renews once when it goes on, before it notices that another one leads.
func TestOneLateRenewalOfTheLastLeaderIsNoProofOfAnotherCluster(t *testing.T) {
	in(t, func(w *world) {
		c1, slow := &etcd{}, w.request()
		slow.Wary = func() bool { return true }
		frozen := w.hold(w.leader("a", c1), slow)
		crash(frozen)
		w.pass(timeouts.LeaseDuration, never)
		next := w.acquire(w.leader("b", c1), slow)
		w.pass(10*time.Second, never)
		late := frozen.renewal(w.clock.Now())
		late.duration = timeouts.HoldDurationWary
		if err := w.target.Update(w.Context(), late.write(w.read())); err != nil {
			w.Fatal(err)
		}
		took := w.pass(timeouts.HoldOfOthers, func() bool { return len(next) > 0 })
		if a := <-next; a.err != nil {
			w.Error(a.err)
		}
		most := timeouts.HoldDurationWary + timeouts.HoldDuration + 2*lookInterval
		if took < timeouts.HoldDurationWary || took > most {
			w.Errorf("the next leader takes over %s after the late renewal", took)
		}
	})
}

// A copy that starts just before the cluster's leader crashes sees it renew once.
func TestACopyThatSawOneRenewalComesAfterTheNextLeader(t *testing.T) {
	in(t, func(w *world) {
		c1 := &etcd{}
		h := w.hold(w.leader("a", c1), w.request())
		standby := w.process("b", c1)
		copied := w.acquire(w.leader("copy", &etcd{next: c1.next}), w.request())
		w.pass(timeouts.HoldRenewal+2*time.Second, never)
		crash(h)
		standby.Watch(w.request().Target, w.read())
		w.pass(timeouts.LeaseDuration, never)
		standby.Lead()
		w.hold(standby, w.request())
		w.pass(time.Minute, func() bool { return len(copied) > 0 })
		if a := <-copied; !errors.As(a.err, new(*OtherError)) {
			w.Errorf("the copy: %v", a.err)
		}
		expectHolder(w, "b_")
	})
}
