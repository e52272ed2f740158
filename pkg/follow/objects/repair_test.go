package objects

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// TestACopyWithoutWhichADelegateCannotStartIsWrittenAgain has somebody who deletes a copy in the target. A kubelet then
// repeats every few seconds that a container cannot start.
func TestACopyWithoutWhichADelegateCannotStartIsWrittenAgain(t *testing.T) {
	l, w := leading(t, func() error { return nil })
	l.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[objectKey]())
	l.follower.links.Set(t.Context(), l.target, l)
	clock := l.follower.options.Clock.(*clocktesting.FakeClock)
	pod := proxy("admiralty-c2", corev1.PodRunning, "db")
	l.exists(t, w, "1", "content")
	refresh := func(o objectKey) {
		t.Helper()
		_, err := l.refresh(t.Context(), o)
		must(t, err)
	}
	refresh(secret("db"))
	made := &corev1.Secret{}
	must(t, l.target.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "db"}, made))
	must(t, l.target.Client.Delete(t.Context(), made))
	for _, step := range []struct {
		later  time.Duration
		repair bool
	}{{repairAfter - 1, false}, {1, true}, {repairAgainAfter - 1, false}, {1, true}} {
		clock.Step(step.later)
		l.follower.Repair(pod, l.target)
		if got := l.queue.Len() > 0; got != step.repair {
			t.Fatalf("after %s more, the copy is enqueued: %t, want %t", step.later, got, step.repair)
		}
		if step.repair {
			o, _ := l.queue.Get()
			refresh(o)
			l.queue.Done(o)
		}
	}
	must(t, l.target.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made))
}

func TestNothingIsRepairedInATargetThatIsNotEngaged(t *testing.T) {
	l, _ := leading(t, func() error { return nil })
	l.follower.Repair(proxy("admiralty-c2", corev1.PodRunning, "db"), &engage.Target{})
}
