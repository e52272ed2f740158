package feedback

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
)

// withdrawnIn returns a reconciler of a target that has a PodChaperon, which placement withdrew, as the cache and the
// API server have it. If it has changed since, it shows a node.
func withdrawnIn(t *testing.T, changed bool) (r *reconciler, cached, is *v1alpha1.PodChaperon) {
	t.Helper()
	made := chaperon(withdrawn(corev1.PodPending))
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&made).Build()
	is = &v1alpha1.PodChaperon{}
	read := func() {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(&made), is); err != nil {
			t.Fatal(err)
		}
	}
	read()
	cached = is.DeepCopy()
	if changed {
		is.Status.Phase = corev1.PodRunning
		if err := c.Update(t.Context(), is); err != nil {
			t.Fatal(err)
		}
	}
	keys := proof.Generate(time.Unix(1000, 0))
	options := Options{
		Clock: clocktesting.NewFakePassiveClock(time.Unix(2000, 0)),
		Keys:  func() (*proof.Keys, error) { return keys, nil },
	}
	return &reconciler{options: options, target: &engage.Target{Client: c, APIReader: c}}, cached, is
}

func TestADelegateThatWasWithdrawnEndsOnlyAsItWasSeen(t *testing.T) {
	for name, overdue := range map[string]bool{"by the target's manager": false, "by its garbage collector": true} {
		for _, changed := range []bool{false, true} {
			r, cached, is := withdrawnIn(t, changed)
			e := ending{chaperon: cached, withdrawn: true, overdue: overdue}
			err := r.endDelegate(t.Context(), types.NamespacedName{Name: "p"}, e, &plan{})
			if err != nil && !apierrors.IsConflict(err) || err == nil && changed && !overdue {
				t.Errorf("%s, changed: %t: %v", name, changed, err)
			}
			err = r.target.APIReader.Get(t.Context(), client.ObjectKeyFromObject(cached), is)
			_, asked := is.Annotations[v1alpha1.AnnotationDeletionGracePeriod]
			if ends := apierrors.IsNotFound(err) || asked; ends == changed {
				t.Errorf("%s, changed: %t: it ends: %t", name, changed, ends)
			}
		}
	}
}

func TestAWithdrawalEndsWhenTheProxyIsBound(t *testing.T) {
	r, cached, is := withdrawnIn(t, true)
	if err := r.prove(t.Context(), proxy(), cached); err != nil {
		t.Fatal(err)
	}
	if err := r.target.APIReader.Get(t.Context(), client.ObjectKeyFromObject(cached), is); err != nil {
		t.Fatal(err)
	}
	if _, withdrawn := is.Annotations[v1alpha1.AnnotationWithdrawn]; withdrawn {
		t.Errorf("annotations %v", is.Annotations)
	}
}
