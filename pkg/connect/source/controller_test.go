package source

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source/grants"
)

func TestADeletedClusterSourceIsConcernedByNothingAnyMore(t *testing.T) {
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "multicluster-clustersource:c1"},
	}
	target := newTarget(t, binding,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}},
		&v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "web"}})
	keeper, err := grants.NewKeeper(grants.Options{Client: target, APIReader: target, Config: &rest.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	leaves := grants.ClusterSource{
		Name: "c1", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}},
	}
	if _, err := keeper.Keep(t.Context(), leaves); err != nil {
		t.Fatal(err)
	}
	if got := keeper.Concerned("team-a"); !slices.Equal(got, []string{"c1"}) {
		t.Fatalf("a namespace that c1 leaves concerns %q", got)
	}
	r := &reconciler[*v1alpha1.ClusterSource]{
		options: Options{Client: target}, kind: clusterSources(), keeper: keeper,
	}
	if _, err := r.Reconcile(t.Context(), requestFor("c1")); err != nil {
		t.Fatal(err)
	}
	if got := keeper.Concerned(""); len(got) > 0 {
		t.Errorf("the end of an object concerns %q", got)
	}
}

// newTarget returns a client of a target that has these objects.
func newTarget(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, rbacv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	bySource := func(o client.Object) []string {
		name, _ := grants.SourceOf(o)
		return []string{name}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&rbacv1.RoleBinding{}, "clustersource", bySource).Build()
}
