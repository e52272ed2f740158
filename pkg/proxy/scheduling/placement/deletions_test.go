package placement

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestATargetThatDeletesPodChaperonsWithoutEndIsRememberedALittle(t *testing.T) {
	w := newWorld()
	c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
	waiter := w.Delegates.startWaiting(types.NamespacedName{Namespace: "default", Name: "web"}, "p", c1)
	for i := range 100 {
		shown := newChaperon(types.UID(fmt.Sprintf("c%d", i)), "p")
		w.Delegates.Seen(c1, shown)
		w.Delegates.Gone(c1, shown)
	}
	if got := len(waiter.deleted.uids); got != maxDeletions {
		t.Errorf("%d deletions are remembered", got)
	}
	if _, deleted := w.Delegates.latest(waiter, newChaperon("c99", "p")); !deleted {
		t.Error("the last one is not remembered")
	}
	w.Delegates.Gone(c2, newChaperon("of-c2", "p"))
	if _, deleted := w.Delegates.latest(waiter, newChaperon("of-c2", "p")); deleted {
		t.Error("a deletion in another target is believed")
	}
}
