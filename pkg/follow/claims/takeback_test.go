package claims

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// emptyCopy returns the copy of the claim "data", which has no volume and is a minute old.
func emptyCopy(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	made := copyOfData()
	made.CreationTimestamp = metav1.NewTime(noon().Add(-time.Minute))
	made.Status.Phase = corev1.ClaimPending
	for _, change := range changes {
		change(made)
	}
	return made
}

func withNode(pvc *corev1.PersistentVolumeClaim) {
	metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, annotationSelectedNode, "node-1")
}

func takenOver(pvc *corev1.PersistentVolumeClaim) { delete(pvc.Labels, v1alpha1.LabelParentUID) }

func unannotated(pvc *corev1.PersistentVolumeClaim) { pvc.Annotations = nil }

// aDayOlder makes the copy one that was restored from a backup: it was created at another time than it says.
func aDayOlder(pvc *corev1.PersistentVolumeClaim) {
	pvc.CreationTimestamp = metav1.NewTime(noon().Add(-24 * time.Hour))
}

// chaperonWith returns a PodChaperon that refers to a claim.
func chaperonWith(name, claim string) *v1alpha1.PodChaperon {
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	chaperon.Spec = *podWithData().Spec.DeepCopy()
	chaperon.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = claim
	return chaperon
}

// takingBack is a test of what becomes of the copy in c2 of a pod that c2 has refused.
type takingBack struct {
	original *corev1.PersistentVolumeClaim // by default one that is in c2
	made     *corev1.PersistentVolumeClaim // by default one without a volume
	happens  func(w *world)
	deleted  bool
	free     bool // whether the claim says that it is nowhere
	retried  bool
	later    time.Duration
}

// theOriginalAndTheCopy are cases in which it depends on what they are.
func theOriginalAndTheCopy() map[string]takingBack {
	changed := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		pvc := followedClaim(atC2)
		change(pvc)
		return pvc
	}
	return map[string]takingBack{
		"a copy without data is taken back": {deleted: true, free: true},
		"a copy with a volume stays":        {made: copyOfData()},
		"a copy whose volume is being bound stays": {
			made: emptyCopy(func(pvc *corev1.PersistentVolumeClaim) { pvc.Spec.VolumeName = "pv" }),
		},
		"a copy that has lost its volume stays": {
			made: emptyCopy(func(pvc *corev1.PersistentVolumeClaim) { pvc.Status.Phase = corev1.ClaimLost }),
		},
		"a copy for which a volume is made stays": {made: emptyCopy(withNode)},
		"a copy that its owner took over stays":   {made: emptyCopy(takenOver)},
		"a copy of another claim stays": {
			made: emptyCopy(func(pvc *corev1.PersistentVolumeClaim) { pvc.Labels[v1alpha1.LabelParentUID] = "0" }),
		},
		"a copy that was restored from a backup stays": {made: emptyCopy(aDayOlder)},
		"a copy may get a volume that was made for it by hand": {
			made: emptyCopy(func(pvc *corev1.PersistentVolumeClaim) {
				pvc.CreationTimestamp = metav1.NewTime(noon().Add(-oldEnough + 3*time.Second))
			}),
			later: 3 * time.Second,
		},
		"the claim is in another cluster": {original: followedClaim(atC3), deleted: true},
		"the claim is in another cluster, and the copy has a volume": {
			original: followedClaim(atC3), made: copyOfData(),
		},
		"the claim is in another cluster, and a volume is made for the copy": {
			original: followedClaim(atC3), made: emptyCopy(withNode),
		},
		"the claim is in another target, of which nobody knows the cluster": {
			original: followedClaim(location{name: "c3"}),
		},
		"the claim is in another target of this cluster": {
			original: followedClaim(location{"sibling", atC2.clusterID}), deleted: true, free: true,
		},
		"the claim does not say where it is": {
			original: followedClaim(location{}), free: true,
		},
		"the claim is not followed any more": {
			original: changed(func(pvc *corev1.PersistentVolumeClaim) {
				delete(pvc.Annotations, v1alpha1.AnnotationFollow)
			}),
		},
	}
}

// whatHappens are cases in which it depends on what else there is, or happens.
func whatHappens() map[string]takingBack {
	answer := func(request string, err error) func(*world) {
		return func(w *world) { w.before[request] = func() error { return err } }
	}
	slow := apierrors.NewTimeoutError("slow", 0)
	chaperon := func(cluster, claim string) func(w *world) {
		return func(w *world) {
			if err := w.stored[cluster].Create(w.t.Context(), chaperonWith("db-1", claim)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return map[string]takingBack{
		"another pod uses the copy": {happens: chaperon("c2", "data")},
		"another pod uses the copy of a claim that is in another cluster": {
			original: followedClaim(atC3), happens: chaperon("c2", "data"),
		},
		"another pod uses another claim": {
			happens: chaperon("c2", "log"), deleted: true, free: true,
		},
		"another pod uses the copy by another name of the target": {
			happens: func(w *world) {
				w.engage("sibling").clusterID = atC2.clusterID
				w.store("sibling", emptyCopy())
				chaperon("sibling", "data")(w)
			},
		},
		"another target only says that it leads to this cluster": {
			happens: func(w *world) {
				w.engage("liar").clusterID = atC2.clusterID
				w.store("liar", emptyCopy(func(pvc *corev1.PersistentVolumeClaim) { pvc.UID = "8" }))
				chaperon("liar", "data")(w)
			},
			deleted: true, free: true,
		},
		"another target only says so, and its PodChaperons have no end": {
			happens: func(w *world) {
				liar := w.engage("liar")
				liar.clusterID, liar.target.APIReader = atC2.clusterID, endless{}
			},
			deleted: true, free: true,
		},
		"the target's PodChaperons have no end": {
			happens: func(w *world) { w.c2.target.APIReader = endless{} },
		},
		"another pod has asked for the copy a moment ago": {
			happens: func(w *world) { w.asks.note(keyOfData, "db-1", atC2, noon().Add(-time.Second)) },
			later:   askedFor - time.Second,
		},
		"another pod has asked for the copy by another name of the target": {
			happens: func(w *world) { w.asks.note(keyOfData, "db-1", location{"sibling", atC2.clusterID}, noon()) },
			later:   askedFor,
		},
		"another pod has asked for the copy long ago": {
			happens: func(w *world) { w.asks.note(keyOfData, "db-1", atC2, noon().Add(-askedFor)) },
			deleted: true, free: true,
		},
		"another pod has asked for the claim in another target": {
			happens: func(w *world) { w.asks.note(keyOfData, "db-1", atC3, noon()) }, deleted: true, free: true,
		},
		"a claim of that name is used in another cluster": {
			happens: chaperon("c3", "data"), deleted: true, free: true,
		},
		"nobody knows which pods use the copy": {happens: answer("c2 list", slow), retried: true},
		"a pod has asked for the copy since": {
			happens: func(w *world) { w.c2.setIdle(keyOfData, false) },
		},
		"the target was set back": {
			happens: func(w *world) { w.c2.target.Confirms = setBack }, retried: true,
		},
		"the target is of the present": {
			happens: func(w *world) { w.c2.target.Confirms = ofThePresent }, deleted: true, free: true,
		},
		"the source does not answer": {happens: answer("source get", slow), retried: true},
		"the target does not answer": {happens: answer("c2 get", slow), retried: true},
		"the copy gets a node in this moment": {
			happens: func(w *world) { w.before["c2 delete"] = w.change("c2", withNode) }, retried: true,
		},
		"the copy is taken over in this moment": {
			happens: func(w *world) { w.before["c2 delete"] = w.change("c2", takenOver) }, retried: true,
		},
		"the copy is another one in this moment": {
			happens: func(w *world) { w.before["c2 delete"] = w.replace("c2") }, retried: true,
		},
		"the deletion is not answered": {happens: answer("c2 delete", slow), retried: true},
		"the source does not take the annotation away": {
			happens: answer("source patch", slow), deleted: true, retried: true,
		},
	}
}

func TestACopyIsTakenBackOnlyIfItSurelyHasNoData(t *testing.T) {
	for _, tests := range []map[string]takingBack{theOriginalAndTheCopy(), whatHappens()} {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) { test.run(t) })
		}
	}
}

func (test takingBack) run(t *testing.T) {
	t.Helper()
	w := newWorld(t)
	if test.original == nil {
		test.original = followedClaim(atC2)
	}
	if test.made == nil {
		test.made = emptyCopy()
	}
	w.store(sourceName, test.original)
	w.store("c2", test.made)
	w.Refused(podWithData(), w.c2.target)
	if test.happens != nil {
		test.happens(w)
	}
	result, err := w.takeBack(t.Context(), keyOfData, w.c2)
	if retried := err != nil; retried != test.retried {
		t.Errorf("error %v, want one: %t", err, test.retried)
	}
	if result.RequeueAfter != test.later {
		t.Errorf("tried again after %s, want %s", result.RequeueAfter, test.later)
	}
	if deleted := w.find("c2") == nil; deleted != test.deleted {
		t.Errorf("the copy was deleted: %t, want %t", deleted, test.deleted)
	}
	if free := w.isAt() == (location{}); free != test.free {
		t.Errorf("the claim is at %v, want that it is free: %t", w.isAt(), test.free)
	}
	if marked := w.c2.isIdle(keyOfData); marked != (test.retried || test.later > 0) {
		t.Errorf("it is to be tried again: %t", marked)
	}
}

func TestAClaimIsGivenFreeWhenItsCopyWasTakenBackBefore(t *testing.T) {
	w := newWorld(t)
	w.store(sourceName, followedClaim(atC2))
	w.store("c2", emptyCopy())
	w.Refused(podWithData(), w.c2.target)
	w.before["source patch"] = func() error { return errors.New("slow") }
	if _, err := w.takeBack(t.Context(), keyOfData, w.c2); err == nil {
		t.Error("there is no error")
	}
	delete(w.before, "source patch")
	if _, err := w.takeBack(t.Context(), keyOfData, w.c2); err != nil {
		t.Error(err)
	}
	if at := w.isAt(); at != (location{}) {
		t.Errorf("the claim is at %v", at)
	}
}

// TestACopyThatIsMadeTooLateGoes has a creation that the target carries out after the pod went elsewhere. Nothing but
// the watches shows the copy.
func TestACopyThatIsMadeTooLateGoes(t *testing.T) {
	for name, test := range map[string]struct {
		at   location
		made *corev1.PersistentVolumeClaim
		goes bool
	}{
		"the claim is in another cluster":                        {atC3, emptyCopy(), true},
		"the claim is here":                                      {atC2, emptyCopy(), false},
		"the claim is nowhere":                                   {location{}, emptyCopy(), false},
		"the claim is in another cluster, and the copy has data": {atC3, copyOfData(), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			original := followedClaim(test.at)
			w.store(sourceName, original)
			w.store("c2", test.made)
			w.source.claims["shop"], w.c2.claims["shop"] = listing(t, original), listing(t, test.made)
			w.targetChanged(w.c2, "shop", keyOfData.Name)
			if w.c2.workers.Queue.Len() > 0 {
				if _, err := w.takeBack(t.Context(), keyOfData, w.c2); err != nil {
					t.Fatal(err)
				}
			}
			if gone := w.find("c2") == nil; gone != test.goes {
				t.Errorf("the copy is gone: %t, want %t", gone, test.goes)
			}
			if at := w.isAt(); at != test.at {
				t.Errorf("the claim is at %v", at)
			}
		})
	}
}

func TestARefusalConcernsFollowedClaimsOnly(t *testing.T) {
	plain := followedClaim(location{})
	delete(plain.Annotations, v1alpha1.AnnotationFollow)
	for name, test := range map[string]struct {
		here *watched
		want bool
	}{
		"a claim that is followed":   {listing(t, followedClaim(atC2)), true},
		"a claim that is not":        {listing(t, plain), false},
		"a claim of the target only": {listing(t), false},
		"nobody knows":               {unlisted(), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.source.claims["shop"] = test.here
			w.Refused(podWithData(), w.c2.target)
			if got := w.c2.isIdle(keyOfData); got != test.want || (w.c2.workers.Queue.Len() > 0) != test.want {
				t.Errorf("noted: %t, enqueued: %d, want %t", got, w.c2.workers.Queue.Len(), test.want)
			}
		})
	}
}

func TestAPodThatAsksAgainKeepsItsCopy(t *testing.T) {
	w := newWorld(t)
	w.store(sourceName, followedClaim(atC2))
	w.store("c2", emptyCopy())
	w.Refused(podWithData(), w.c2.target)
	if err := w.Ensure(t.Context(), podWithData(), w.c2.target); err != nil {
		t.Fatal(err)
	}
	if w.c2.isIdle(keyOfData) {
		t.Error("the copy is to be taken back")
	}
}

// TestACopyThatWasTakenBackIsNotFoundAgain has a cache that shows the copy in c3 for a while.
func TestACopyThatWasTakenBackIsNotFoundAgain(t *testing.T) {
	inUse := func(pvc *corev1.PersistentVolumeClaim) { pvc.Finalizers = []string{"kubernetes.io/pvc-protection"} }
	for name, test := range map[string]struct {
		made *corev1.PersistentVolumeClaim
		goes bool
		want location
	}{
		"it is gone":               {nil, false, atC2},
		"it goes":                  {emptyCopy(inUse), true, atC2},
		"it goes, and may be used": {emptyCopy(inUse, withNode), true, atC3},
		"it is there":              {emptyCopy(), false, atC3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.store(sourceName, givenUpClaim())
			if test.made != nil {
				w.store("c3", test.made)
			}
			if test.goes {
				if err := w.stored["c3"].Delete(t.Context(), w.find("c3")); err != nil {
					t.Fatal(err)
				}
			}
			w.c3.claims["shop"] = listing(t, emptyCopy())
			err := w.Ensure(t.Context(), podWithData(), w.c2.target)
			if got := w.isAt(); got != test.want || (err == nil) != (test.want == atC2) {
				t.Errorf("the claim is at %v, error %v, want %v", got, err, test.want)
			}
		})
	}
}
