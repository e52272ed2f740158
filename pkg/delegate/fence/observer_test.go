package fence

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// world is a target whose Leases an Observer sees, second by second.
type world struct {
	o   Observer
	now time.Time
	// broken says that the watch shows nothing. renews are the sources that renew, by their Leases.
	broken bool
	renews map[string]string
}

func newWorld(renews map[string]string) *world {
	w := &world{now: time.Unix(1e9, 0), renews: renews}
	w.pass(2 * timeouts.FenceLeast)
	return w
}

// pass lets time pass, in which everybody who lives renews.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(time.Second)
		if w.broken {
			continue
		}
		for name, id := range w.renews {
			if w.now.Unix()%5 == 0 {
				w.o.See(lease(name, id, w.now), w.now)
			}
		}
		if w.now.Unix()%10 == 0 {
			w.o.SeeOwn(lease(v1alpha1.LeaseManager, "", w.now), w.now)
		}
	}
}

func (w *world) expect(t *testing.T, what string, from, to time.Duration) {
	t.Helper()
	silent, known := w.o.Silent("c1", func(string) bool { return true })
	if !known || silent < from || silent > to {
		t.Errorf("%s: silent for %s (known: %v), want %s to %s", what, silent, known, from, to)
	}
}

// lease is a Lease that was renewed at a time by the holder's clock, which is an hour behind.
func lease(name, clusterID string, renewed time.Time) *coordinationv1.Lease {
	holder, at := "holder", metav1.NewMicroTime(renewed.Add(-time.Hour))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{v1alpha1.LabelParentClusterID: clusterID},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at},
	}
}

func TestASourceThatRenewsIsNotSilent(t *testing.T) {
	w := newWorld(map[string]string{"a": "c1"})
	for range 20 {
		w.pass(7 * time.Second)
		w.expect(t, "while it renews", 0, 5*time.Second)
	}
}

func TestSilenceIsMeasuredOnOurClock(t *testing.T) {
	w := newWorld(map[string]string{"a": "c1"})
	delete(w.renews, "a")
	w.pass(100 * time.Second)
	w.expect(t, "after 100 s", 100*time.Second-timeouts.FenceBlind, 105*time.Second)
	// The holder's clock says anything.
	w.o.See(lease("a", "c1", w.now.Add(-24*time.Hour)), w.now)
	w.expect(t, "after a renewal with an earlier time", 0, time.Second)
	// A look at the same Lease is no renewal.
	w.pass(100 * time.Second)
	w.o.See(lease("a", "c1", w.now.Add(-224*time.Hour)), w.now)
	same := lease("a", "c1", w.now)
	w.o.See(same, w.now)
	w.pass(90 * time.Second)
	same.ResourceVersion, same.Labels = "9", map[string]string{"touched": "by others"}
	w.o.See(same, w.now)
	w.expect(t, "after a change that is no renewal", 90*time.Second-timeouts.FenceBlind, 95*time.Second)
}

func TestABrokenWatchIsNotTakenForSilence(t *testing.T) {
	w := newWorld(map[string]string{"a": "c1"})
	w.broken = true
	w.pass(time.Hour)
	w.expect(t, "while the watch is broken", 0, timeouts.FenceBlind)
	// When the watch is back, it may show our own renewal first.
	w.o.SeeOwn(lease(v1alpha1.LeaseManager, "", w.now), w.now)
	w.expect(t, "when the watch is back", 0, 0)
	w.broken = false
	delete(w.renews, "a")
	w.pass(timeouts.FenceLeast - 11*time.Second)
	w.expect(t, "while the source may still come back", 0, 0)
	w.pass(22 * time.Second)
	w.expect(t, "when it had its time", time.Hour, 2*time.Hour)
}

func TestANewLeaderBeginsToCount(t *testing.T) {
	w := &world{now: time.Unix(1e9, 0)}
	w.o.See(lease("a", "c1", w.now.Add(-24*time.Hour)), w.now)
	w.expect(t, "at first", 0, 0)
	w.pass(timeouts.FenceLeast - time.Second)
	w.expect(t, "before a minute", 0, 0)
	w.pass(time.Minute)
	w.expect(t, "after two minutes", time.Minute, 2*time.Minute)
}

func TestWhoseSilence(t *testing.T) {
	all := func(string) bool { return true }
	for name, test := range map[string]struct {
		change func(*world)
		id     string
		may    func(string) bool
		silent bool
		known  bool
	}{
		"a source whose only Lease is not renewed": {func(*world) {}, "c1", all, true, true},
		"another one, which renews":                {func(*world) {}, "c2", all, false, true},
		"one without a Lease":                      {func(*world) {}, "c3", all, false, false},
		"one without a cluster ID":                 {func(*world) {}, "", all, false, false},
		"one that renews another Lease": {
			func(w *world) { w.renews["c"] = "c1" }, "c1", all, false, true,
		},
		"one whose ID another user claims": {
			func(w *world) { w.renews["c"] = "c1" }, "c1", func(name string) bool { return name != "c" }, true, true,
		},
		"one that lost its grant": {
			func(*world) {}, "c1", func(string) bool { return false }, false, false,
		},
		"one whose Lease somebody deleted, and which was made anew": {
			func(w *world) { w.o.See(lease("a", "", w.now), w.now) }, "c1", all, true, true,
		},
		"one that holds the next Lease": {func(w *world) {
			w.o.See(lease("a", "", w.now), w.now)
			w.renews["a"] = "c1"
		}, "c1", all, false, true},
		"one that has no rights any more": {func(w *world) { w.o.Forget("a") }, "c1", all, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(map[string]string{"a": "c1", "b": "c2"})
			w.o.See(lease("unheld", "", w.now), w.now)
			delete(w.renews, "a")
			test.change(w)
			w.pass(2 * timeouts.FenceLeast)
			silent, known := w.o.Silent(test.id, test.may)
			if known != test.known || (silent >= timeouts.FenceLeast) != test.silent {
				t.Errorf("silent for %s, known %v", silent, known)
			}
		})
	}
}

// TestTheBoundsOfSilence has times that are exactly as long as the bounds.
func TestTheBoundsOfSilence(t *testing.T) {
	for name, test := range map[string]struct {
		gaps []time.Duration // between the renewals of our own Lease
		want time.Duration
	}{
		"seeing for the least time": {
			[]time.Duration{timeouts.FenceBlind, timeouts.FenceBlind, timeouts.FenceLeast - 2*timeouts.FenceBlind},
			timeouts.FenceLeast,
		},
		"a moment less": {
			[]time.Duration{timeouts.FenceBlind, timeouts.FenceBlind, timeouts.FenceLeast - 2*timeouts.FenceBlind - 1},
			0,
		},
		"a gap that is a moment too long": {
			[]time.Duration{timeouts.FenceBlind + 1, timeouts.FenceBlind, timeouts.FenceBlind}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{now: time.Unix(1e9, 0)}
			w.o.See(lease("a", "c1", w.now), w.now)
			w.o.SeeOwn(lease(v1alpha1.LeaseManager, "", w.now), w.now)
			for _, gap := range test.gaps {
				w.now = w.now.Add(gap)
				w.o.SeeOwn(lease(v1alpha1.LeaseManager, "", w.now), w.now)
			}
			w.expect(t, "then", test.want, test.want)
		})
	}
}
