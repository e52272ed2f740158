package claims

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

var (
	atC2 = location{"c2", "id-of-c2"}
	atC3 = location{"c3", "id-of-c3"}
)

func bindToC3(pvc *corev1.PersistentVolumeClaim) {
	metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, v1alpha1.AnnotationFollowedTo, atC3.name)
	metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, v1alpha1.AnnotationFollowedToClusterID, atC3.clusterID)
}

// TestACopyIsMadeInOneTargetOnly has a pod with the claim "data" that is to be placed in c2.
func TestACopyIsMadeInOneTargetOnly(t *testing.T) {
	slow := apierrors.NewTimeoutError("slow", 0)
	answer := func(err error) func() error { return func() error { return err } }
	for name, test := range map[string]struct {
		at, copied location // where the claim says that its copy is, and where it is
		happens    func(w *world)
		err        string // a part of it
		refused    bool   // so that another target may be tried
		want       location
		changes    []string
	}{
		"a copy is made after the claim says where": {
			want: atC2, changes: []string{"source patch", "c2 create"},
		},
		"a copy that is there is used": {at: atC2, copied: atC2, want: atC2},
		"a copy that is there is written down, so that no other is made": {
			copied: atC2, want: atC2, changes: []string{"source patch"},
		},
		"a copy in another target is the only one": {
			at: atC3, copied: atC3, want: atC3, err: "is in c3", refused: true,
		},
		"a target that does not answer may have the copy": {
			at: atC3, copied: atC3, want: atC3, err: "is in c3, which cannot be asked now", refused: true,
			happens: func(w *world) { w.before["c3 get"] = answer(slow) },
		},
		"a target that gives no right to look may have the copy": {
			at: atC3, copied: atC3, want: atC3, err: "is in c3, which cannot be asked now", refused: true,
			happens: func(w *world) { w.before["c3 get"] = answer(forbidden(noRight)) },
		},
		"a target that is lost may have the copy": {
			at: atC3, want: atC3, err: "is in c3, which cannot be asked now", refused: true,
			happens: func(w *world) { w.registry.Lose(w.c3.target) },
		},
		"a target that was set back may have the copy": {
			at: atC3, want: atC3, err: "is in c3, which cannot be asked now", refused: true,
			happens: func(w *world) { w.c3.target.Confirms = setBack },
		},
		"no copy is made anew in a target that was set back": {
			at: atC2, want: atC2, err: "confirming that the copy of claim \"data\" is gone: set back",
			happens: func(w *world) { w.c2.target.Confirms = setBack },
		},
		"a copy that somebody deleted in its target is made anew": {
			at: atC2, want: atC2, changes: []string{"c2 create"},
			happens: func(w *world) { w.c2.target.Confirms = ofThePresent },
		},
		"the first copy of a new claim is made without a confirmation": {
			want: atC2, changes: []string{"source patch", "c2 create"},
			happens: func(w *world) {
				w.c2.target.Confirms = setBack
				w.leads.Store(new(time.Time{}.Add(-2 * clockMargin))) // The claim has no time of creation.
			},
		},
		"a copy that another target does not have is made": {
			at: atC3, want: atC2, changes: []string{"source patch", "c2 create"},
		},
		"a claim that says in this moment that it goes elsewhere has no copy here": {
			want: atC3, err: "writing down where", changes: []string{"source patch"},
			happens: func(w *world) { w.before["source patch"] = w.change(sourceName, bindToC3) },
		},
		"a claim that is another one in this moment has no copy here": {
			err: "writing down where", changes: []string{"source patch"},
			happens: func(w *world) { w.before["source patch"] = w.replace(sourceName) },
		},
		"a claim that cannot say where has no copy": {
			err: "writing down where", changes: []string{"source patch"},
			happens: func(w *world) { w.before["source patch"] = answer(slow) },
		},
		"a copy of which nobody knows whether it was made keeps the claim there": {
			want: atC2, err: "slow", changes: []string{"source patch", "c2 create"},
			happens: func(w *world) { w.before["c2 create"] = answer(slow) },
		},
		"a copy that appears in this moment keeps the claim there": {
			want: atC2, err: "already exists", changes: []string{"source patch", "c2 create"},
			happens: func(w *world) {
				w.before["c2 create"] = answer(apierrors.NewAlreadyExists(resourceOfClaims, "data"))
			},
		},
		"a copy that the target refuses does not keep the claim there": {
			err: "is not taken there", refused: true, changes: []string{"source patch", "c2 create", "source patch"},
			happens: func(w *world) { w.before["c2 create"] = answer(forbidden("exceeded quota: q")) },
		},
		"nothing is made while the source does not show the claim": {
			err:     "getting claim",
			happens: func(w *world) { w.before["source get"] = answer(slow) },
		},
		"nothing is made while the target does not say whether it has the copy": {
			err:     "getting claim",
			happens: func(w *world) { w.before["c2 get"] = answer(slow) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.store(sourceName, followedClaim(test.at))
			if test.copied.name != "" {
				w.store(test.copied.name, copyOfData())
			}
			if test.happens != nil {
				test.happens(w)
			}
			err := w.Ensure(t.Context(), podWithData(), w.c2.target)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
			if refused := errors.As(err, new(*needs.RefusedError)); refused != test.refused {
				t.Errorf("error %v is a refusal: %t, want %t", err, refused, test.refused)
			}
			if got := w.isAt(); got != test.want {
				t.Errorf("the claim says that it is at %v, want %v", got, test.want)
			}
			if diff := cmp.Diff(test.changes, w.changes); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// setBack and ofThePresent are what targets confirm.
func setBack(context.Context) error { return errors.New("set back") }

func ofThePresent(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("it is asked without a deadline")
	}
	return nil
}

// listing makes a watch that has listed these claims.
func listing(t *testing.T, claims ...*corev1.PersistentVolumeClaim) *watched {
	t.Helper()
	w := &watched{stop: func() {}, claimStore: watch.NewStore(watch.StoreOptions[*corev1.PersistentVolumeClaim, claim]{
		EntryOf: func(pvc *corev1.PersistentVolumeClaim) claim { return claimOf(pvc, sourceName) },
	})}
	list := make([]any, len(claims))
	for i := range claims {
		list[i] = claims[i]
	}
	if err := w.Replace(list, ""); err != nil {
		t.Fatal(err)
	}
	return w
}
