package claims

import (
	"cmp"
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
	made     *corev1.PersistentVolumeClaim // by default a copy with data
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
			err: "may have data in each of c3, c4: write the name of the right one into the annotation",
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

// unmarked returns a claim of the name "data" that has a volume, and is not known to be a copy of ours.
func unmarked(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	own := emptyCopy()
	own.UID, own.Labels, own.Annotations, own.Status.Phase = "7", nil, nil, corev1.ClaimBound
	for _, change := range changes {
		change(own)
	}
	return own
}

func withoutVolume(pvc *corev1.PersistentVolumeClaim) { pvc.Status.Phase = corev1.ClaimPending }

// unmarkedClaims are those whose target has a claim that pods use as a copy, although it is not known to be one.
func unmarkedClaims() map[string]lostAnnotation {
	marked := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		made := copyOfData()
		change(made)
		return made
	}
	const isUsed = "is in c3"
	return map[string]lostAnnotation{
		"a claim that somebody made there": {made: unmarked(), err: isUsed, want: atC3},
		"a copy that its owner took over":  {made: marked(takenOver), err: isUsed, want: atC3},
		"a copy that lost its annotations": {made: marked(unannotated), err: isUsed, want: atC3},
		"a copy that came from a backup":   {made: marked(aDayOlder), err: isUsed, want: atC3},
		"a claim whose volume is being made": {
			made: unmarked(withoutVolume, withNode), err: isUsed, want: atC3,
		},
		"a claim that is being filled": {
			made: unmarked(withoutVolume, func(pvc *corev1.PersistentVolumeClaim) {
				pvc.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "nightly"}
			}),
			err: isUsed, want: atC3,
		},
		"a claim with data that goes when its last pod does": {
			made: unmarked(func(pvc *corev1.PersistentVolumeClaim) { pvc.Finalizers = []string{"pvc-protection"} }),
			happens: func(w *world) {
				if err := w.stored["c3"].Delete(w.t.Context(), w.find("c3")); err != nil {
					w.t.Fatal(err)
				}
			},
			err: isUsed, want: atC3,
		},
		"a copy of another source": {
			made: marked(func(pvc *corev1.PersistentVolumeClaim) {
				pvc.Labels[v1alpha1.LabelParentClusterID] = "another"
			}),
			want: atC2,
		},
		"a copy of an earlier claim of that name": {
			made: marked(func(pvc *corev1.PersistentVolumeClaim) { pvc.Labels[v1alpha1.LabelParentUID] = "0" }),
			want: atC2,
		},
	}
}

// emptyUnmarkedClaims are those whose target has such a claim, which has no volume.
func emptyUnmarkedClaims() map[string]lostAnnotation {
	own := func(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		return unmarked(append(changes, withoutVolume)...)
	}
	use := func(w *world) {
		if err := w.stored["c3"].Create(w.t.Context(), chaperonWith("db-1", "data")); err != nil {
			w.t.Fatal(err)
		}
	}
	const mayBe = "does not say where it is, and may be in c3, which cannot be asked now"
	return map[string]lostAnnotation{
		"a claim that nobody uses":        {made: own(), want: atC2},
		"a claim that a pod waits to use": {made: own(), happens: use, err: "is in c3", want: atC3},
		"a claim to which a volume may be about to be bound": {
			made: own(func(pvc *corev1.PersistentVolumeClaim) {
				pvc.CreationTimestamp = metav1.NewTime(noon().Add(-oldEnough + time.Second))
			}),
			err: mayBe,
		},
		"a claim of which nobody knows who uses it": {
			made: own(), err: mayBe,
			happens: func(w *world) { w.before["c3 list"] = func() error { return errors.New("slow") } },
		},
		"a claim in a target that was set back": {
			made: own(), err: mayBe, happens: func(w *world) { w.c3.target.Confirms = setBack },
		},
	}
}

// ownTarget are those in which the source is a target of itself, and so has the original there.
func ownTarget() map[string]lostAnnotation {
	atSelf := location{"self", "id-of-self"}
	self := func(phase corev1.PersistentVolumeClaimPhase, others ...string) func(w *world) {
		return func(w *world) {
			w.engage("self")
			own := w.find(sourceName)
			own.ResourceVersion, own.Status.Phase = "", phase
			w.store("self", own)
			for _, other := range others {
				if err := w.stored[other].Delete(w.t.Context(), w.find(other)); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
	return map[string]lostAnnotation{
		"the original has a volume": {
			happens: self(corev1.ClaimBound, "c3"), err: "is in self", want: atSelf,
		},
		"the original has none": {happens: self(corev1.ClaimPending, "c3"), want: atC2},
		"the original has none, and the copy has data": {
			happens: self(corev1.ClaimPending), err: "is in c3", want: atC3,
		},
		"the original and the copy have data": {
			happens: self(corev1.ClaimBound), err: "may have data in each of c3, self: write the name of the right one",
		},
	}
}

func TestALostAnnotationIsNoPermission(t *testing.T) {
	for _, tests := range []map[string]lostAnnotation{
		lostAnnotations(), unmarkedClaims(), emptyUnmarkedClaims(), ownTarget(),
	} {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) { test.run(t) })
		}
	}
}

// TestSeveralClaimsThatMayHaveDataAreAllNamed has a user's claim in c2, where the pod is to be placed, and in c3.
func TestSeveralClaimsThatMayHaveDataAreAllNamed(t *testing.T) {
	w := newWorld(t)
	w.store(sourceName, followedClaim(location{}))
	w.store("c2", unmarked())
	w.store("c3", unmarked(func(pvc *corev1.PersistentVolumeClaim) { pvc.UID = "8" }))
	err := w.Ensure(t.Context(), podWithData(), w.c2.target)
	want := "may have data in each of c2, c3: write the name of the right one into the annotation " +
		"multicluster.admiralty.io/followed-to of the claim, or leave its value empty to give up all of them"
	if !strings.HasSuffix(message(err), want) || w.isAt() != (location{}) {
		t.Errorf("error %v, at %v", err, w.isAt())
	}
	for _, says := range []location{{name: "c2"}, {}} { // The remedies.
		change := w.change(sourceName, func(pvc *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, v1alpha1.AnnotationFollowedTo, says.name)
			delete(pvc.Annotations, v1alpha1.AnnotationFollowedToClusterID)
		})
		if err := errors.Join(change(), w.Ensure(t.Context(), podWithData(), w.c2.target)); err != nil {
			t.Error(err)
		}
		if at := w.isAt(); at != atC2 {
			t.Errorf("the claim is at %v", at)
		}
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
	w.store("c3", cmp.Or(test.made, copyOfData()))
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
