package grants

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	fullRole, leavingRole, earlierRole = "source", "source-leaving", "source-earlier"

	leasesNamespace = "admiralty-leases"
)

// here is a target with a Keeper and a Publisher, whose cache is always up to date.
type here struct {
	client.WithWatch

	keeper    *Keeper
	publisher *Publisher
	// fails has each request fail for which it returns an error. It may be nil.
	fails func(verb string, o client.Object) error
}

// newHere returns a target that has these objects. Its copies are not listed yet.
func newHere(t *testing.T, objects ...client.Object) *here {
	t.Helper()
	scheme := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme),
		v1alpha1.AddToScheme(scheme))
	if err != nil {
		t.Fatal(err)
	}
	h := &here{}
	failure := func(verb string, o client.Object) error {
		if h.fails == nil {
			return nil
		}
		return h.fails(verb, o)
	}
	h.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.SourceGrant{}).
		WithIndex(&rbacv1.RoleBinding{}, indexUser, bound).
		WithIndex(&rbacv1.RoleBinding{}, indexSource, func(o client.Object) []string {
			name, _ := SourceOf(o)
			return []string{name}
		}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(
				ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption,
			) error {
				if err := failure("create", o); err != nil {
					return err
				}
				return c.Create(ctx, o, options...)
			},
			Delete: func(
				ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption,
			) error {
				if err := failure("delete", o); err != nil {
					return err
				}
				return c.Delete(ctx, o, options...)
			},
		}).Build()
	options := Options{
		Client: h, APIReader: h, Config: &rest.Config{}, LeasesNamespace: leasesNamespace,
		FullClusterRoleName: fullRole, LeavingClusterRoleName: leavingRole, EarlierClusterRoleName: earlierRole,
	}
	if h.keeper, err = NewKeeper(options); err != nil {
		t.Fatal(err)
	}
	h.publisher = NewPublisher(options, h.keeper)
	return h
}

// copied has the copies of some kind listed, all of which users made in namespaces: "namespace" of "user".
func (h *here) copied(t *testing.T, which *copies, users map[string]string) {
	t.Helper()
	informer := which.newInformer()
	for namespace, user := range users {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "db", Annotations: map[string]string{v1alpha1.AnnotationFollowedBy: user},
		}}
		if err := informer.GetStore().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	which.informers = append(which.informers, informer)
	which.listed.Store(true)
}

// newInformer returns one that is not started.
func (l *copies) newInformer() toolscache.SharedIndexInformer {
	indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	return metadatainformer.NewFilteredMetadataInformer(l.client, resource, "", 0, indexers, nil).Informer()
}

// keep keeps the rights of a source.
func (h *here) keep(t *testing.T, s ClusterSource) Outcome {
	t.Helper()
	outcome, err := h.keeper.Keep(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// publish reconciles the SourceGrant of a user twice, so that it exists and says what is so, and returns its status.
func (h *here) publish(t *testing.T, user string) v1alpha1.SourceGrantStatus {
	t.Helper()
	request := requestOf(user)
	for range 2 {
		if _, err := h.publisher.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	return h.status(t, user)
}

func (h *here) status(t *testing.T, user string) v1alpha1.SourceGrantStatus {
	t.Helper()
	grant := &v1alpha1.SourceGrant{}
	if err := h.Get(t.Context(), requestOf(user).NamespacedName, grant); err != nil {
		t.Fatal(err)
	}
	return grant.Status
}

// bindings returns what the RoleBindings and ClusterRoleBindings give: "namespace/name: kind role", sorted.
func (h *here) bindings(t *testing.T) []string {
	t.Helper()
	roles, clusterRoles := &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}
	if err := errors.Join(h.List(t.Context(), roles), h.List(t.Context(), clusterRoles)); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, b := range roles.Items {
		all = append(all, b.Namespace+"/"+b.Name+": "+b.RoleRef.Kind+" "+b.RoleRef.Name)
	}
	for _, b := range clusterRoles.Items {
		all = append(all, b.Name+": "+b.RoleRef.Kind+" "+b.RoleRef.Name)
	}
	slices.Sort(all)
	return all
}

func wantEqual[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func namespace(name string, labels ...string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		n.Labels[label] = "yes"
	}
	return n
}

// chaperon is a PodChaperon of a cluster.
func chaperon(namespace, clusterID string) *v1alpha1.PodChaperon {
	return &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "web", Labels: map[string]string{v1alpha1.LabelParentClusterID: clusterID},
	}}
}

// binding gives a user c1 a role in a namespace, or everywhere.
func binding(kind, role, namespace, name string) client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{LabelSource: ""}}
	return BindingTo(kind, role, meta, userC1())
}

func userC1() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "c1"}}
}

// clusterSource is a ClusterSource of the user c1.
func clusterSource(clusterID string) *v1alpha1.ClusterSource {
	return &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: "c1"},
		Spec:       v1alpha1.ClusterSourceSpec{UserName: "c1", ClusterID: clusterID},
	}
}

// again reconciles the SourceGrant of a user once more, and returns when the next look is due.
func (h *here) again(t *testing.T, user string) time.Duration {
	t.Helper()
	result, err := h.publisher.Reconcile(t.Context(), requestOf(user))
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}
