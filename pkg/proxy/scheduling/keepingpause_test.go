package scheduling

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestThePauseDoublesEachTimeThatRoomWasKeptForAPodInVain(t *testing.T) {
	w, big, small := newWorld(), sized("big", 10, "8"), sized("small", 20, "1")
	c1, demand := w.engage(t, "c1", interceptor.Funcs{}), w.demandOf(t, big)
	since, _ := w.keeping.fitsNowhere(big.UID)
	keeps := func() bool {
		w.keeping.takes(c1.NodeName, small, w.demandOf(t, small))
		got, later := w.keeping.keep(big, demand, since, []*target{c1}, 1)
		if !later {
			t.Error("nobody looks later")
		}
		return got != nil
	}
	for i := range 8 {
		w.keeping.inVain(big.UID)
		if w.clock.Step(vainPause<<min(i, 6) - 1); keeps() {
			t.Errorf("after %d times in vain, it keeps its room too early", i+1)
		}
		if w.clock.Step(1); !keeps() {
			t.Errorf("after %d times in vain, it does not keep its room again", i+1)
		}
		w.keeping.release(big.UID)
	}
}
