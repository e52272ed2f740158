package source

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func account(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, name)}
}

func TestAUserMayDoWhatItsSourceAllows(t *testing.T) {
	run(t, env.SourceRole)
	mine, other := env.Namespace(t, nil, cluster), env.Namespace(t, nil, cluster)
	createSource(t, mine, "c1", v1alpha1.SourceSpec{UserName: "one-namespace"})
	createClusterSource(t, mine, v1alpha1.ClusterSourceSpec{UserName: "every-namespace"})

	for user, allowed := range map[string]map[string]bool{
		"one-namespace":   {mine: true, other: false, "": true},
		"every-namespace": {mine: true, other: true, "": true},
		"nobody":          {mine: false, other: false, "": false},
	} {
		c := env.ClientFor(t, cluster.User(t, user))
		for namespace, want := range allowed {
			// The API server's own cache of rights follows within moments.
			env.Eventually(t, func(ctx context.Context) error {
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
					return fmt.Errorf("%q in namespace %q: allowed is %t, want %t", user, namespace, err == nil, want)
				}
				return nil
			})
		}
	}
}

func TestServiceAccountsAreCreatedButNotTakenOver(t *testing.T) {
	run(t, env.SourceRole)
	namespace := env.Namespace(t, nil, cluster)
	env.Create(t, cluster, account(namespace, "existing"))
	source := createSource(t, namespace, "c1", v1alpha1.SourceSpec{ServiceAccountName: "new"})
	created := env.Get(t, cluster, account(namespace, "new"))
	if len(created.OwnerReferences) != 1 || created.OwnerReferences[0].UID != source.UID {
		t.Errorf("owners are %+v, want the Source", created.OwnerReferences)
	}

	everywhere := createClusterSource(t, namespace, v1alpha1.ClusterSourceSpec{
		ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: namespace, Name: "new"},
	})
	if owners := env.Get(t, cluster, created).OwnerReferences; len(owners) != 2 {
		t.Errorf("owners are %+v, want the Source and the ClusterSource", owners)
	}

	env.Change(t, cluster, source, func(s *v1alpha1.Source) { s.Spec.ServiceAccountName = "existing" })
	waitReady(t, source, metav1.ConditionTrue)
	if owners := env.Get(t, cluster, created).OwnerReferences; len(owners) != 1 {
		t.Errorf("owners are %+v, want the ClusterSource, which needs the service account still", owners)
	}
	if owners := env.Get(t, cluster, account(namespace, "existing")).OwnerReferences; len(owners) != 0 {
		t.Errorf("the service account that existed has owners %+v, want none", owners)
	}

	env.Change(t, cluster, everywhere, func(s *v1alpha1.ClusterSource) {
		s.Spec = v1alpha1.ClusterSourceSpec{UserName: "c1"}
	})
	env.WaitGone(t, cluster, created)
	binding := &rbacv1.RoleBinding{ObjectMeta: env.Meta(namespace, "multicluster-clustersource:"+namespace)}
	if subjects := env.Get(t, cluster, binding).Subjects; len(subjects) != 1 || subjects[0].Kind != rbacv1.UserKind {
		t.Errorf("subjects are %+v, want the user alone", subjects)
	}
}

func TestADeletedServiceAccountComesBack(t *testing.T) {
	run(t, env.SourceRole)
	namespace := env.Namespace(t, nil, cluster)
	createSource(t, namespace, "c1", v1alpha1.SourceSpec{ServiceAccountName: "c1"})
	env.Delete(t, cluster, env.Get(t, cluster, account(namespace, "c1")))
	env.WaitFor(t, cluster, account(namespace, "c1"), func(*corev1.ServiceAccount) error { return nil })
}

func TestTheClusterRoleBindingOfASourceGoesWithIt(t *testing.T) {
	stop := run(t, env.SourceRole)
	namespace := env.Namespace(t, nil, cluster)
	binding := func(name string) *rbacv1.ClusterRoleBinding {
		name = "multicluster-source-viewer:" + namespace + ":" + name
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	seen, unseen := "seen", "unseen"
	sources := map[string]*v1alpha1.Source{}
	for _, name := range []string{seen, unseen} {
		sources[name] = createSource(t, namespace, name, v1alpha1.SourceSpec{UserName: name})
		env.Get(t, cluster, binding(name))
	}
	env.Delete(t, cluster, sources[seen])
	env.WaitGone(t, cluster, binding(seen))

	stop()
	env.Delete(t, cluster, sources[unseen])
	run(t, env.SourceRole)
	env.WaitGone(t, cluster, binding(unseen))
}

func TestAnotherRoleReplacesTheBinding(t *testing.T) {
	stop := run(t, "earlier-role")
	createClusterSource(t, "another-role", v1alpha1.ClusterSourceSpec{UserName: "c1"})
	stop()
	run(t, env.SourceRole)
	binding := &rbacv1.RoleBinding{ObjectMeta: env.Meta("default", "multicluster-clustersource:another-role")}
	env.WaitFor(t, cluster, binding, func(binding *rbacv1.RoleBinding) error {
		if binding.RoleRef.Name != env.SourceRole {
			return fmt.Errorf("role is %q", binding.RoleRef.Name)
		}
		return nil
	})
}

func TestASourceReportsAMissingNamespaceUntilItExists(t *testing.T) {
	run(t, env.SourceRole)
	source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Spec: v1alpha1.ClusterSourceSpec{
		ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: "later", Name: "c1"},
	}}
	env.Create(t, cluster, source)
	message := waitReady(t, source, metav1.ConditionFalse)
	if !strings.Contains(message, `namespaces "later" not found`) {
		t.Errorf("message is %q", message)
	}
	env.Create(t, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}})
	waitReady(t, source, metav1.ConditionTrue)
}
