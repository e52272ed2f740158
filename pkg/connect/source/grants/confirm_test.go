package grants

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// deselected is a namespace that a ClusterSource used until now.
type deselected struct {
	*Keeper

	source ClusterSource
	cached client.Client // without PodChaperons that are new
	live   client.Client // has only PodChaperons
	answer error         // to lists of PodChaperons, unless it is nil
}

func newDeselected(t *testing.T) *deselected {
	t.Helper()
	scheme := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err != nil {
		t.Fatal(err)
	}
	d := &deselected{source: ClusterSource{
		Name: "c1", ClusterID: "c1-id", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}},
	}}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: fullPrefix + "c1", Labels: map[string]string{LabelSource: ""},
	}}
	d.cached = fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, binding).
		WithIndex(&rbacv1.RoleBinding{}, indexSource, func(o client.Object) []string {
			name, _ := SourceOf(o)
			return []string{name}
		}).Build()
	list := func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		if d.answer != nil {
			return d.answer
		}
		return c.List(ctx, list, options...)
	}
	d.live = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{List: list}).Build()
	options := Options{
		Client: d.cached, APIReader: d.live, FullClusterRoleName: "source", LeavingClusterRoleName: "source-leaving",
	}
	d.Keeper = &Keeper{options: options, objects: Objects{Client: d.cached, APIReader: d.live}}
	return d
}

// keep keeps the rights, and wants these RoleBindings.
func (d *deselected) keep(t *testing.T, want ...string) Outcome {
	t.Helper()
	outcome, err := d.Keep(t.Context(), d.source)
	if !errors.Is(err, d.answer) {
		t.Fatalf("error %v, want %v", err, d.answer)
	}
	list := &rbacv1.RoleBindingList{}
	if err := d.cached.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range list.Items {
		got = append(got, list.Items[i].Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("RoleBindings (-want +got):\n%s", diff)
	}
	return outcome
}

func (d *deselected) create(t *testing.T, clusterID string) client.Object {
	t.Helper()
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Labels: map[string]string{v1alpha1.LabelParentClusterID: clusterID},
	}}
	if err := d.live.Create(t.Context(), chaperon); err != nil {
		t.Fatal(err)
	}
	return chaperon
}

func TestAPodChaperonThatTheCacheDoesNotHaveYetCanBeEnded(t *testing.T) {
	d := newDeselected(t)
	d.keep(t, leavingPrefix+"c1")
	chaperon := d.create(t, "c1-id") // The API server knew only the RoleBinding that is gone.
	outcome := d.keep(t, leavingPrefix+"c1")
	if diff := cmp.Diff(Outcome{Leaving: []string{"shop"}}, outcome); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if got := d.Concerned("shop"); !slices.Equal(got, []string{"c1"}) {
		t.Errorf("its end concerns %q", got)
	}
	if err := d.live.Delete(t.Context(), chaperon); err != nil {
		t.Fatal(err)
	}
	d.keep(t)
}

func TestPodChaperonsOfOthersGiveNoRights(t *testing.T) {
	d := newDeselected(t)
	d.create(t, "c2-id")
	d.keep(t, leavingPrefix+"c1")
	d.keep(t)

	d = newDeselected(t)
	d.source.ClusterID = "" // It may be anyone's.
	d.create(t, "c2-id")
	d.keep(t, leavingPrefix+"c1")
	d.keep(t, leavingPrefix+"c1")
}

func TestRightsStayIfPodChaperonsCannotBeListed(t *testing.T) {
	d := newDeselected(t)
	d.keep(t, leavingPrefix+"c1")
	d.answer = errors.New("down")
	d.keep(t, leavingPrefix+"c1")
	d.answer = nil
	d.keep(t)
}
