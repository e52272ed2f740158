package claims

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// TestACopyIsDeletedOnlyWhenItsClaimIsSurelyGone has a copy in c2. The caches have never shown the claim in the source.
func TestACopyIsDeletedOnlyWhenItsClaimIsSurelyGone(t *testing.T) {
	earlier := followedClaim(atC2)
	earlier.UID = "0"
	answer := func(err error) func(*world) {
		return func(w *world) { w.before["source get"] = func() error { return err } }
	}
	for name, test := range map[string]struct {
		original *corev1.PersistentVolumeClaim // in the source; nil if it is gone
		happens  func(w *world)
		deleted  bool
		retried  bool
	}{
		"the claim is gone":                                   {deleted: true},
		"another claim has its name":                          {original: earlier, deleted: true},
		"the claim exists, though the cache does not show it": {original: followedClaim(atC2)},
		"the claim exists, and is bound elsewhere":            {original: followedClaim(atC3)},
		"the source does not answer": {
			happens: answer(apierrors.NewTimeoutError("slow", 0)), retried: true,
		},
		"the source does not accept our credentials": {
			happens: answer(apierrors.NewUnauthorized("expired")), retried: true,
		},
		"the source gives no right to look": {happens: answer(forbidden(noRight)), retried: true},
		"the copy is taken over in this moment": {
			happens: func(w *world) {
				w.before["c2 delete"] = w.change("c2", func(pvc *corev1.PersistentVolumeClaim) {
					delete(pvc.Labels, v1alpha1.LabelParentUID)
				})
			},
			retried: true,
		},
		"the copy is another one in this moment": {
			happens: func(w *world) { w.before["c2 delete"] = w.replace("c2") }, retried: true,
		},
		"the copy was taken over since it was listed": {
			happens: func(w *world) {
				takeOver := w.change("c2", func(pvc *corev1.PersistentVolumeClaim) { pvc.Labels = nil })
				if err := takeOver(); err != nil {
					w.t.Error(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.store("c2", copyOfData())
			w.c2.claims["shop"], w.source.claims["shop"] = listing(t, copyOfData()), listing(t)
			if test.original != nil {
				w.store(sourceName, test.original)
			}
			if test.happens != nil {
				test.happens(w)
			}
			_, err := w.reconcile(t.Context(), keyOfData, w.c2)
			if retried := err != nil; retried != test.retried {
				t.Errorf("error %v, want one: %t", err, test.retried)
			}
			if deleted := w.find("c2") == nil; deleted != test.deleted {
				t.Errorf("the copy was deleted: %t, want %t", deleted, test.deleted)
			}
		})
	}
}

func TestOnlyTheVeryCopyIsExpanded(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world) func() error{
		"the copy":                   nil,
		"another claim in its place": func(w *world) func() error { return w.replace("c2") },
		"one that somebody makes their own": func(w *world) func() error {
			return w.change("c2", func(pvc *corev1.PersistentVolumeClaim) { pvc.Labels = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			original := followedClaim(atC2)
			original.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
			w.store(sourceName, original)
			w.store("c2", copyOfData())
			want := "2Gi"
			if meanwhile != nil {
				w.before["c2 patch"], want = meanwhile(w), "1Gi"
			}
			if _, err := w.reconcile(t.Context(), keyOfData, w.c2); (err != nil) != (meanwhile != nil) {
				t.Errorf("error %v", err)
			}
			if got := w.find("c2").Spec.Resources.Requests.Storage().String(); got != want {
				t.Errorf("%s are requested, want %s", got, want)
			}
		})
	}
}
