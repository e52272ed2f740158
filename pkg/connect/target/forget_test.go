package target

import (
	"context"
	"net/http"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
)

// remembering is a fixture that has seen the Lease of the target c2 with a high epoch.
func remembering(t *testing.T) (fixture, types.NamespacedName) {
	t.Helper()
	f := newFixture(t, http.StatusUnauthorized)
	f.options.Holds = hold.New(hold.Options{ClusterID: "c1", Clock: f.clock})
	key := types.NamespacedName{Name: "c2"}
	f.options.Holds.Watch(key, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{v1alpha1.AnnotationEpoch: "7"},
	}})
	return f, key
}

// expectNew checks that a target of this name counts as one that nobody has seen, and not as one that was set back.
func (f fixture) expectNew(t *testing.T, key types.NamespacedName) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "leases", Name: "source"}}
	request := hold.Request{
		Target: key, Lease: client.ObjectKeyFromObject(lease), Client: clientOf(t, lease),
	}
	if _, err := f.options.Holds.Acquire(t.Context(), t.Context(), request); err != nil {
		t.Errorf("a target that was made again: %v", err)
	}
}

func clientOf(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{coordinationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestTheLeaderForgetsTheLeaseOfADeletedTarget(t *testing.T) {
	f, key := remembering(t)
	f.set(t.Context(), key, f.refuser, nil)
	f.next(t)
	f.remove(t.Context(), key)
	f.running.Wait()
	f.expectNew(t, key)
}

func TestAStandbyReplicaForgetsTheLeaseOfADeletedTarget(t *testing.T) {
	f, key := remembering(t)
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	target.Spec.Self = true // Its Lease is not watched any more.
	f.options.Client, f.options.Config = clientOf(t, target), &rest.Config{}
	s := &standby{connections: f.connections}
	stops := map[types.NamespacedName]context.CancelFunc{}
	if err := s.follow(t.Context(), stops); err != nil || len(stops) != 1 {
		t.Fatalf("it follows %v: %v", stops, err)
	}
	if err := f.options.Client.Delete(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if err := s.follow(t.Context(), stops); err != nil {
		t.Fatal(err)
	}
	s.watching.Wait()
	f.expectNew(t, key)
}
