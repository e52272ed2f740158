package gate

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func everything(event watch.Event) (watch.Event, bool) { return event, true }

// The bubble fails if a goroutine is left.
func TestAFilteredWatchEndsWhileAnEventIsPending(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		from := watch.NewFakeWithChanSize(1, false)
		w := filterWatch(from, everything)
		from.Add(&corev1.Pod{})
		synctest.Wait()
		w.Stop()
		w.Stop()
	})
}

func TestAFilteredWatchEndsWithTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := watch.NewFakeWithChanSize(2, false)
		w := filterWatch(from, func(event watch.Event) (watch.Event, bool) { return event, event.Type == watch.Added })
		from.Modify(&corev1.Pod{})
		from.Add(&corev1.Pod{})
		if event := <-w.ResultChan(); event.Type != watch.Added {
			t.Errorf("got %s", event.Type)
		}
		from.Stop()
		if event, ok := <-w.ResultChan(); ok {
			t.Errorf("got %s", event.Type)
		}
	})
}
