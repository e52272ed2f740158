package claims

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// lostAnnotation is a test of a claim whose copy is in c3, and whose pod is to be placed in c2.
type lostAnnotation struct {
	original *corev1.PersistentVolumeClaim // by default one without the annotation
	happens  func(w *world)
	err      string // a part of it
	retried  bool   // although the target does not refuse the pod
	want     location
}

func lostAnnotations() map[string]lostAnnotation {
	loseC3 := func(w *world) { w.registry.Lose(w.c3.target); w.connected = []string{"c2", "c3"} }
	lead := func(w *world, since time.Time) { w.leads.Store(&since) }
	const mayBe = "does not say where it is, and may be in c3, which cannot be asked now"
	return map[string]lostAnnotation{
		"the copy's target is reachable": {err: "is in c3", want: atC3},
		"the copy's target is lost":      {happens: loseC3, err: mayBe},
		"it was lost before the claim existed": {
			happens: func(w *world) { loseC3(w); w.connected = []string{"c2"} }, want: atC2,
		},
		"the copy's target is not engaged yet": {
			happens: func(w *world) { w.connected = []string{"c2", "c4"} }, err: "may be in c4, which cannot be asked",
		},
		"the copy's target does not answer": {
			happens: func(w *world) {
				w.before["c3 get"] = func() error { return apierrors.NewTimeoutError("slow", 0) }
			},
			err: mayBe,
		},
		"the copy's target gives no right to look": {
			happens: func(w *world) { w.before["c3 get"] = func() error { return forbidden(noRight) } }, err: mayBe,
		},
		"a target that lacks the copy was set back": {
			happens: func(w *world) { w.engage("c4").target.Confirms = setBack }, err: "may be in c4",
		},
		"nobody knows which targets there are": {
			happens: func(w *world) { w.unknown = errors.New("no cache") }, err: "no cache", retried: true,
		},
		"two copies have data": {
			happens: func(w *world) {
				other := copyOfData()
				other.UID = "8"
				w.engage("c4")
				w.store("c4", other)
			},
			err: "has data in c3 and c4",
		},
		"another target has a copy without data": {
			happens: func(w *world) {
				w.store("c2", emptyCopy(func(pvc *corev1.PersistentVolumeClaim) { pvc.UID = "8" }))
			},
			err: "is in c3", want: atC3,
		},
		"another target leads to the same cluster": {
			happens: func(w *world) {
				w.engage("c1").clusterID = atC3.clusterID
				w.store("c1", copyOfData())
			},
			err: "is in c1", want: location{"c1", atC3.clusterID},
		},
		"the source remembers where it was": {
			happens: func(w *world) {
				before := claimOf(followedClaim(atC3), sourceName)
				w.records.note(keyOfData, &before)
				loseC3(w)
				w.connected = nil
			},
			err: "is in c3, which cannot be asked now", want: atC3,
		},
		"the source remembers an earlier claim of that name": {
			happens: func(w *world) {
				before := claimOf(followedClaim(location{"c9", "id-of-c9"}), sourceName)
				before.uid = "0"
				w.records.note(keyOfData, &before)
			},
			err: "is in c3", want: atC3,
		},
		"somebody gives the copy up": {original: givenUpClaim(), happens: loseC3, want: atC2},
		"a claim that is new has no copy that is not on record": {
			happens: func(w *world) { loseC3(w); lead(w, noon().Add(-clockMargin-time.Second)) }, want: atC2,
		},
		"a claim that was made before this process led": {
			happens: func(w *world) { loseC3(w); lead(w, noon().Add(-clockMargin)) }, err: mayBe,
		},
	}
}

func TestALostAnnotationIsNoPermission(t *testing.T) {
	for name, test := range lostAnnotations() {
		t.Run(name, func(t *testing.T) { test.run(t) })
	}
}

func (test lostAnnotation) run(t *testing.T) {
	t.Helper()
	w := newWorld(t)
	if test.original == nil {
		test.original = followedClaim(location{})
	}
	test.original.CreationTimestamp = metav1.NewTime(noon())
	w.store(sourceName, test.original)
	w.store("c3", copyOfData())
	if test.happens != nil {
		test.happens(w)
	}
	err := w.Ensure(t.Context(), podWithData(), w.c2.target)
	if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
		t.Errorf("error %v, want one with %q", err, test.err)
	}
	if refused := errors.As(err, new(*needs.RefusedError)); refused == (test.retried || test.err == "") {
		t.Errorf("error %v is a refusal: %t", err, refused)
	}
	if got := w.isAt(); got != test.want {
		t.Errorf("the claim says that it is at %v, want %v", got, test.want)
	}
	made := w.find("c2")
	if is := made != nil && made.UID == "9"; is != (test.want == atC2) {
		t.Errorf("a second copy was made: %t", is)
	}
	if !w.since.IsZero() && !w.since.Equal(noon().Add(-clockMargin)) {
		t.Errorf("it is asked for targets that were connected since %s", w.since)
	}
}

func TestWhereCopiesAreIsRemembered(t *testing.T) {
	at := func(to location) *claim { c := claimOf(followedClaim(to), sourceName); return &c }
	silent, another, givenUp := at(location{}), at(location{}), claimOf(givenUpClaim(), sourceName)
	another.uid = "0"
	for name, test := range map[string]struct {
		noted []*claim
		asked *claim
		want  location
	}{
		"nothing was noted":         {nil, silent, location{}},
		"a place":                   {[]*claim{at(atC2)}, silent, atC2},
		"the annotation goes":       {[]*claim{at(atC2), silent}, silent, atC2},
		"it goes elsewhere":         {[]*claim{at(atC2), at(atC3)}, silent, atC3},
		"it is given up":            {[]*claim{at(atC2), &givenUp}, silent, location{}},
		"an earlier one goes":       {[]*claim{at(atC2), nil}, silent, atC2},
		"another claim of the name": {[]*claim{at(atC2)}, another, location{}},
		"the claim says it itself":  {[]*claim{at(atC2)}, at(atC3), atC3},
		"the claim was given up":    {[]*claim{at(atC2)}, &givenUp, location{}},
	} {
		t.Run(name, func(t *testing.T) {
			var r records
			for _, noted := range test.noted {
				r.note(keyOfData, noted)
			}
			if got := r.recall(keyOfData, test.asked).followedTo; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestClaimsThatAreGoneAreForgotten(t *testing.T) {
	w := newWorld(t)
	asked := noon()
	here := listing(t, followedClaim(atC2))
	here.asked.Store(&asked)
	w.source.claims["shop"] = here
	kept, gone, unknown := keyOfData, keyOfData, keyOfData
	gone.Name, unknown.Namespace = "log", "bank"
	original := claimOf(followedClaim(atC2), sourceName)
	for _, key := range []types.NamespacedName{kept, gone, unknown} {
		w.records.note(key, &original)
	}
	w.stopUnasked(noon().Add(-time.Minute))
	_, hasGone := w.records.byName[gone]
	if len(w.records.byName) != 2 || hasGone {
		t.Errorf("remembered: %v", w.records.byName)
	}
}

func TestAWatchRemembersWhereCopiesAre(t *testing.T) {
	w := newWorld(t)
	w.options.Appeared = func(string) {}
	w.source.claims["shop"] = listing(t, followedClaim(atC3))
	w.sourceChanged("shop", "")
	w.source.claims["shop"] = listing(t, followedClaim(location{}))
	w.sourceChanged("shop", "data")
	w.registry.Lose(w.c3.target)
	w.c2.claims["shop"] = listing(t)
	got := w.Objection(podWithData(), w.c2.target, nil)
	if !strings.Contains(got, "is in c3, which cannot be asked now") {
		t.Errorf("the objection is %q", got)
	}
}

// TestWhatIsNowhereSaysSo has a target that refuses the copy: a lost annotation would mean something else.
func TestWhatIsNowhereSaysSo(t *testing.T) {
	w := newWorld(t)
	w.store(sourceName, followedClaim(location{}))
	w.before["c2 create"] = func() error { return forbidden("exceeded quota: q") }
	if err := w.Ensure(t.Context(), podWithData(), w.c2.target); err == nil {
		t.Error("there is no error")
	}
	if at, said := w.find(sourceName).Annotations[v1alpha1.AnnotationFollowedTo]; !said || at != "" {
		t.Errorf("the annotation is %q, set: %t", at, said)
	}
}
