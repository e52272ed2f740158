package source

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const sourceRole, viewerRole = "multicluster-scheduler-source", "multicluster-scheduler-cluster-summary-viewer"

// run runs the controllers until stop is called, or the test ends.
func run(t *testing.T, sourceClusterRole string) (stop func()) {
	t.Helper()
	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme:     cluster.Client.Scheme(),
		Cache:      cache.Options{ByObject: source.CacheByObject()},
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = source.New(source.Options{
		Client:                       mgr.GetClient(),
		APIReader:                    mgr.GetAPIReader(),
		Clock:                        clock.RealClock{},
		SourceClusterRoleName:        sourceClusterRole,
		SummaryViewerClusterRoleName: viewerRole,
	}).Register(mgr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("running the manager: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Client.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T %q: %v", object, object.GetName(), err)
	}
}

func eventuallyReady(t *testing.T, object client.Object, status metav1.ConditionStatus) (message string) {
	t.Helper()
	apiserver.Eventually(t, func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		var conditions []metav1.Condition
		switch o := object.(type) {
		case *v1alpha1.Source:
			conditions = o.Status.Conditions
		case *v1alpha1.ClusterSource:
			conditions = o.Status.Conditions
		}
		condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
		if condition == nil || condition.Status != status || condition.ObservedGeneration != object.GetGeneration() {
			return fmt.Errorf("condition is %+v", condition)
		}
		message = condition.Message
		return nil
	})
	return message
}

func eventuallyGone(t *testing.T, object client.Object) {
	t.Helper()
	apiserver.Eventually(t, func(ctx context.Context) error {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%T %q is still there (%w)", object, object.GetName(), err)
	})
}

func account(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestAUserMayDoWhatItsSourceSays(t *testing.T) {
	run(t, sourceRole)
	mine, other := cluster.Namespace(t, nil), cluster.Namespace(t, nil)
	namespaced := &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "c1"}, Spec: v1alpha1.SourceSpec{UserName: "one-namespace"}}
	everywhere := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: mine}, Spec: v1alpha1.ClusterSourceSpec{UserName: "every-namespace"}}
	create(t, namespaced)
	create(t, everywhere)
	eventuallyReady(t, namespaced, metav1.ConditionTrue)
	eventuallyReady(t, everywhere, metav1.ConditionTrue)

	for user, allowed := range map[string]map[string]bool{
		"one-namespace":   {mine: true, other: false, "": true},
		"every-namespace": {mine: true, other: true, "": true},
		"nobody":          {mine: false, other: false, "": false},
	} {
		restConfig, err := cluster.User(user)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(restConfig, client.Options{Scheme: cluster.Client.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		for namespace, want := range allowed {
			// The API server's own cache of rights follows within moments.
			apiserver.Eventually(t, func(ctx context.Context) error {
				var err error
				if namespace == "" {
					err = c.List(ctx, &v1alpha1.ClusterSummaryList{})
				} else {
					err = c.List(ctx, &v1alpha1.PodChaperonList{}, client.InNamespace(namespace))
				}
				if err != nil && !apierrors.IsForbidden(err) {
					return err
				}
				if (err == nil) != want {
					return fmt.Errorf("user %q in namespace %q: allowed is %t, want %t", user, namespace, err == nil, want)
				}
				return nil
			})
		}
	}
}

func TestServiceAccountsAreMadeButNotTakenOver(t *testing.T) {
	run(t, sourceRole)
	namespace := cluster.Namespace(t, nil)
	create(t, account(namespace, "existing"))
	source := &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}, Spec: v1alpha1.SourceSpec{ServiceAccountName: "new"}}
	create(t, source)
	eventuallyReady(t, source, metav1.ConditionTrue)

	made := account(namespace, "new")
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil {
		t.Fatal(err)
	}
	if len(made.OwnerReferences) != 1 || made.OwnerReferences[0].UID != source.UID {
		t.Errorf("owners are %+v, want the Source", made.OwnerReferences)
	}

	everywhere := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.ClusterSourceSpec{
		ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: namespace, Name: "new"},
	}}
	create(t, everywhere)
	eventuallyReady(t, everywhere, metav1.ConditionTrue)
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil || len(made.OwnerReferences) != 2 {
		t.Errorf("owners are %+v (%v), want the Source and the ClusterSource", made.OwnerReferences, err)
	}

	source.Spec.ServiceAccountName = "existing"
	if err := cluster.Client.Update(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	eventuallyReady(t, source, metav1.ConditionTrue)
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil || len(made.OwnerReferences) != 1 {
		t.Errorf("owners are %+v (%v), want the ClusterSource, which needs it still", made.OwnerReferences, err)
	}
	existing := account(namespace, "existing")
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(existing), existing); err != nil || len(existing.OwnerReferences) != 0 {
		t.Errorf("the service account that existed has owners %+v (%v), want none", existing.OwnerReferences, err)
	}

	everywhere.Spec = v1alpha1.ClusterSourceSpec{UserName: "c1"}
	if err := cluster.Client.Update(t.Context(), everywhere); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, made)
	binding := &rbacv1.ClusterRoleBinding{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: "multicluster-source:" + namespace}, binding); err != nil {
		t.Fatal(err)
	}
	if len(binding.Subjects) != 1 || binding.Subjects[0].Kind != rbacv1.UserKind {
		t.Errorf("subjects are %+v, want the user alone", binding.Subjects)
	}
}

func TestADeletedServiceAccountComesBack(t *testing.T) {
	run(t, sourceRole)
	namespace := cluster.Namespace(t, nil)
	source := &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}, Spec: v1alpha1.SourceSpec{ServiceAccountName: "c1"}}
	create(t, source)
	eventuallyReady(t, source, metav1.ConditionTrue)
	deleted := account(namespace, "c1")
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(deleted), deleted); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Delete(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, func(ctx context.Context) error {
		return cluster.Client.Get(ctx, client.ObjectKeyFromObject(deleted), account(namespace, "c1"))
	})
}

func TestTheClusterRoleBindingOfASourceGoesWithIt(t *testing.T) {
	stop := run(t, sourceRole)
	namespace := cluster.Namespace(t, nil)
	binding := func(name string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "multicluster-source-viewer:" + namespace + ":" + name}}
	}
	seen, unseen := "seen", "unseen"
	sources := map[string]*v1alpha1.Source{}
	for _, name := range []string{seen, unseen} {
		sources[name] = &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.SourceSpec{UserName: name}}
		create(t, sources[name])
		eventuallyReady(t, sources[name], metav1.ConditionTrue)
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(binding(name)), binding(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Client.Delete(t.Context(), sources[seen]); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, binding(seen))

	stop()
	if err := cluster.Client.Delete(t.Context(), sources[unseen]); err != nil {
		t.Fatal(err)
	}
	run(t, sourceRole)
	eventuallyGone(t, binding(unseen))
}

func TestAnotherRoleReplacesTheBinding(t *testing.T) {
	stop := run(t, "earlier-role")
	source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: "another-role"}, Spec: v1alpha1.ClusterSourceSpec{UserName: "c1"}}
	create(t, source)
	eventuallyReady(t, source, metav1.ConditionTrue)
	stop()
	run(t, sourceRole)
	apiserver.Eventually(t, func(ctx context.Context) error {
		binding := &rbacv1.ClusterRoleBinding{}
		if err := cluster.Client.Get(ctx, client.ObjectKey{Name: "multicluster-source:another-role"}, binding); err != nil {
			return err
		}
		if binding.RoleRef.Name != sourceRole {
			return fmt.Errorf("role is %q", binding.RoleRef.Name)
		}
		return nil
	})
}

func TestWhatStandsInTheWayIsSaidUntilItIsMended(t *testing.T) {
	run(t, sourceRole)
	source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Spec: v1alpha1.ClusterSourceSpec{
		ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: "later", Name: "c1"},
	}}
	create(t, source)
	if message := eventuallyReady(t, source, metav1.ConditionFalse); !strings.Contains(message, `namespaces "later" not found`) {
		t.Errorf("message is %q", message)
	}
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}})
	eventuallyReady(t, source, metav1.ConditionTrue)
}
