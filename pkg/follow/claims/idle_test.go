package claims

import (
	"cmp"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// TestACopyThatKeepsAPodForNothingIsTakenBack has a pod that is nowhere and asks for c3. Its claim is in c2, and nobody
// remembers a refusal.
func TestACopyThatKeepsAPodForNothingIsTakenBack(t *testing.T) {
	use := func(w *world) {
		if err := w.stored["c2"].Create(w.t.Context(), chaperonWith("db-1", "data")); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		made    *corev1.PersistentVolumeClaim // by default an empty copy
		from    func(w *world) *engage.Target
		happens func(w *world)
		stays   bool
	}{
		"nobody uses it":                  {},
		"it has a volume":                 {made: copyOfData(), stays: true},
		"a volume is made for it":         {made: emptyCopy(withNode), stays: true},
		"its owner took it over":          {made: emptyCopy(takenOver), stays: true},
		"another pod waits there with it": {happens: use, stays: true},
		"its target was set back":         {happens: func(w *world) { w.c2.target.Confirms = setBack }, stays: true},
		"its target is out of reach":      {happens: func(w *world) { w.registry.Lose(w.c2.target) }, stays: true},
		"the pod is there, and moves itself": {
			from: func(w *world) *engage.Target { return w.c2.target }, stays: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			original, made := followedClaim(atC2), cmp.Or(test.made, emptyCopy())
			w.store(sourceName, original)
			w.store("c2", made)
			w.source.claims["shop"] = listing(t, original)
			w.c2.claims["shop"], w.c3.claims["shop"] = listing(t, made), listing(t)
			if test.happens != nil {
				test.happens(w)
			}
			var from *engage.Target
			if test.from != nil {
				from = test.from(w)
			}
			_ = w.Objection(podWithData(), w.c3.target, from)
			_, _ = w.takeBack(t.Context(), keyOfData, w.c2)
			if stays := w.find("c2") != nil; stays != test.stays || (w.isAt() == atC2) != test.stays {
				t.Errorf("the copy is there: %t, and the claim at %v; want it to stay: %t", stays, w.isAt(), test.stays)
			}
			if got := w.find("c3"); got != nil {
				t.Error("a second copy was made")
			}
		})
	}
}

// TestAPodThatComesToItsCopyKeepsIt has a copy that keeps a pod from c3. Then c2 has room for the pod.
func TestAPodThatComesToItsCopyKeepsIt(t *testing.T) {
	w := newWorld(t)
	original, made := followedClaim(atC2), emptyCopy()
	w.store(sourceName, original)
	w.store("c2", made)
	w.source.claims["shop"] = listing(t, original)
	w.c2.claims["shop"], w.c3.claims["shop"] = listing(t, made), listing(t)
	first, second := podWithData(), podWithData()
	first.UID, second.UID = "a", "b"
	_ = w.Objection(first, w.c3.target, nil)
	if err := w.Ensure(t.Context(), first, w.c2.target); err != nil {
		t.Fatal(err)
	}
	if w.c2.isIdle(keyOfData) {
		t.Error("the copy is to be taken back from the pod that has asked for it")
	}
	_ = w.Objection(second, w.c3.target, nil) // The PodChaperon of the first is not there yet.
	w.Refused(second, w.c2.target)
	result, err := w.takeBack(t.Context(), keyOfData, w.c2)
	if err != nil || result.RequeueAfter != askedFor || w.find("c2") == nil {
		t.Errorf("looked again after %s, error %v, copy %v", result.RequeueAfter, err, w.find("c2"))
	}
	w.Refused(first, w.c2.target)
	if _, err := w.takeBack(t.Context(), keyOfData, w.c2); err != nil || w.find("c2") != nil {
		t.Errorf("error %v, copy %v", err, w.find("c2"))
	}
}
