package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestACopyOfTheSourceDoesNothingWhileTheSourceActs(t *testing.T) {
	i := connected(t)
	original, backup := i.target(t, c1), i.target(t, copied)
	first := run(t, c1, "first", false)
	waitConnected(t, c1, original)
	i.waitHolder(t, "first")

	other := run(t, copied, "copy", false)
	waitHeldByOther(t, copied, backup)
	virtualNode(t, copied, i.key(), readyIs(corev1.ConditionUnknown))
	env.WaitForEvent(t, copied, backup, v1alpha1.ReasonHeldByOther, "another manager acts")
	if _, ok := other.registry.ByKey(i.key()); ok {
		t.Error("the copy has engaged the target")
	}

	// An orderly stop leaves the Lease to the next leader, and not to the copy.
	first.stop()
	run(t, c1, "second", false)
	i.waitHolder(t, "second")
	waitConnected(t, c1, original)
	waitHeldByOther(t, copied, backup)
}

func TestTheNextLeaderTakesOverAfterACrashAndTheCopyDoesNot(t *testing.T) {
	i := connected(t)
	original, backup := i.target(t, c1), i.target(t, copied)
	first := run(t, c1, "first", true)
	waitConnected(t, c1, original)
	standby := run(t, c1, "standby", false)
	run(t, copied, "copy", false)
	waitHeldByOther(t, copied, backup)

	first.stop()
	waittest.Receive(t, "the election of the standby", standby.elected)
	elected := time.Now()
	i.waitHolder(t, "standby")
	// It has watched the Lease. Otherwise it would begin to wait now.
	if took := time.Since(elected); took >= timeouts.HoldDuration/speed {
		t.Errorf("it took the Lease %s after it was elected", took)
	}
	standby.engaged(t, i.key())
	waitHeldByOther(t, copied, backup)
	// The status of the earlier leader stayed, so that no endpoint was lost.
	for _, e := range env.Events(t, c1, original) {
		if e.Reason == v1alpha1.ReasonHeldByOther {
			t.Errorf("the next leader took the last one for another cluster: %s", e.Note)
		}
	}
}

func TestASourceThatLosesItsLeaseWritesNothingMore(t *testing.T) {
	i := connected(t)
	original := i.target(t, c1)
	namespace := env.Namespace(t, nil, c2)
	r := run(t, c1, "first", false)
	waitConnected(t, c1, original)
	engaged := r.engaged(t, i.key())
	env.Must(t, engaged.Client.Create(t.Context(), i.chaperon(namespace, "before")))

	env.Change(t, c2, i.lease(), func(lease *coordinationv1.Lease) {
		epoch, err := strconv.Atoi(lease.Annotations[v1alpha1.AnnotationEpoch])
		env.Must(t, err)
		lease.Annotations[v1alpha1.AnnotationEpoch] = strconv.Itoa(epoch + 1)
		lease.Spec.HolderIdentity = new("another")
	})
	waitHeldByOther(t, c1, original)
	virtualNode(t, c1, i.key(), readyIs(corev1.ConditionUnknown))
	if err := engaged.Client.Create(t.Context(), i.chaperon(namespace, "after")); err == nil {
		t.Error("it still writes")
	}
	if _, ok := r.registry.ByKey(i.key()); ok {
		t.Error("the target is still engaged")
	}
}

func TestATargetThatWasSetBackIsNotBelievedUntilItIsAccepted(t *testing.T) {
	i := connected(t)
	original := i.target(t, c1)
	r := run(t, c1, "first", false)
	waitConnected(t, c1, original)
	env.WaitFor(t, c1, original, func(o *v1alpha1.ClusterTarget) error {
		if o.Status.Epoch == 0 {
			return errors.New("no epoch is remembered")
		}
		return nil
	})
	// As etcd of before the connection has it.
	env.Change(t, c2, i.lease(), func(lease *coordinationv1.Lease) {
		lease.Spec, lease.Annotations = coordinationv1.LeaseSpec{}, nil
	})
	waitTurnedBack(t, original)
	virtualNode(t, c1, i.key(), readyIs(corev1.ConditionUnknown))

	// The next leader knows, too.
	r.stop()
	r = run(t, c1, "second", false)
	waittest.Receive(t, "the election of the second leader", r.elected)
	waitTurnedBack(t, original)
	if _, ok := r.registry.ByKey(i.key()); ok {
		t.Error("the target is engaged")
	}
	env.Change(t, c1, original, func(o *v1alpha1.ClusterTarget) {
		epoch := strconv.FormatInt(o.Status.Epoch, 10)
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationAcceptEpoch, epoch)
	})
	waitConnected(t, c1, original)
	r.engaged(t, i.key())
}

func TestADeletedNamespaceOfLeasesIsAccepted(t *testing.T) {
	i := connected(t)
	original := i.target(t, c1)
	r := run(t, c1, "first", false)
	waitConnected(t, c1, original)
	i.waitHolder(t, "first")
	restore := i.loseLeases(t)
	env.WaitFor(t, c1, original, func(o *v1alpha1.ClusterTarget) error { // It may be for a moment.
		is := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionConnected)
		if is == nil || is.Reason != v1alpha1.ReasonForbidden || !strings.Contains(is.Message, "may not be used") {
			return fmt.Errorf("condition %v", is)
		}
		return nil
	})
	waitTurnedBack(t, original)
	i.waitGranted(t, env.Namespace(t, nil, c2)) // The target's manager still publishes where the source may act.
	virtualNode(t, c1, i.key(), readyIs(corev1.ConditionUnknown))
	env.WaitForEvent(t, c1, original, v1alpha1.ReasonTurnedBack, "helm upgrade")
	env.Change(t, c1, original, func(o *v1alpha1.ClusterTarget) {
		epoch := strconv.FormatInt(o.Status.Epoch, 10)
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationAcceptEpoch, epoch)
	})
	waitConnected(t, c1, original)
	engaged := r.engaged(t, i.key())

	restore()
	i.waitHolder(t, "first")
	env.Eventually(t, func(context.Context) error {
		if r.engaged(t, i.key()) == engaged {
			return errors.New("the target is not engaged anew")
		}
		return nil
	})
	waitConnected(t, c1, original)
}

// waitGranted waits until the SourceGrant has a namespace.
func (i identity) waitGranted(t *testing.T, namespace string) {
	t.Helper()
	grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName(i.user)}}
	env.WaitFor(t, c2, grant, func(grant *v1alpha1.SourceGrant) error {
		if !slices.Contains(grant.Status.Namespaces, namespace) {
			return fmt.Errorf("status is %+v", grant.Status)
		}
		return nil
	})
}

// loseLeases deletes everything in the namespace of Leases that the source and the manager need, as the deletion of the
// namespace would. restore does what helm upgrade does.
func (i identity) loseLeases(t *testing.T) (restore func()) {
	t.Helper()
	list := &rbacv1.RoleBindingList{}
	env.Must(t, c2.Client.List(t.Context(), list, client.InNamespace(env.LeasesNamespace)))
	var manager *rbacv1.RoleBinding
	for _, binding := range list.Items {
		if !strings.HasPrefix(binding.Name, "multicluster-source-") {
			manager = &binding
		}
	}
	env.Delete(t, c2, manager)
	env.Eventually(t, func(ctx context.Context) error {
		err := env.ClientFor(t, c2.Impersonate(managerUser)).Get(ctx, keyOf(i.lease()), &coordinationv1.Lease{})
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("the manager still has its rights: %w", err)
		}
		return nil
	})
	meta := env.Meta(env.LeasesNamespace, "multicluster-"+i.lease().Name)
	env.Delete(t, c2, &rbacv1.RoleBinding{ObjectMeta: meta})
	env.Delete(t, c2, &rbacv1.Role{ObjectMeta: meta})
	env.Delete(t, c2, i.lease())
	return func() {
		t.Helper()
		again := &rbacv1.RoleBinding{
			ObjectMeta: env.Meta(manager.Namespace, manager.Name), RoleRef: manager.RoleRef, Subjects: manager.Subjects,
		}
		env.Create(t, c2, again)
	}
}

func TestAnotherUserIsNotATargetThatWasSetBack(t *testing.T) {
	i, j := connected(t), connected(t)
	original := i.target(t, c1)
	run(t, c1, "first", false)
	waitConnected(t, c1, original)
	i.waitHolder(t, "first")
	secret := &corev1.Secret{ObjectMeta: env.Meta(metav1.NamespaceDefault, i.name)}
	env.Change(t, c1, secret, func(s *corev1.Secret) {
		s.Data["config"] = env.Kubeconfig(t, env.Context{Name: "x", Login: j.login})
	})
	j.waitHolder(t, "first")
	env.WaitFor(t, c1, original, func(o *v1alpha1.ClusterTarget) error {
		if !strings.HasSuffix(o.Status.EpochOf, "/"+j.lease().Name) {
			return fmt.Errorf("status is %+v", o.Status)
		}
		return nil
	})
	waitConnected(t, c1, original)
}

func waitTurnedBack(t *testing.T, object *v1alpha1.ClusterTarget) {
	t.Helper()
	waitCondition(t, c1, object, v1alpha1.ConditionConnected, v1alpha1.ReasonTurnedBack)
}

func TestAnOlderTargetIsConnectedWithoutLease(t *testing.T) {
	user := env.Meta("", "").Name + "by-hand"
	i := identity{name: "by-hand", user: user, login: c2.User(t, user)}
	c2.BindSource(t, user)
	original := i.target(t, c1)
	r := run(t, c1, "first", false)
	waitConnected(t, c1, original)
	r.engaged(t, i.key())
}

func TestASourceHoldsItsOwnLeaseOnly(t *testing.T) {
	one, two := connected(t), connected(t)
	present(t)
	c := env.ClientFor(t, one.login)
	env.Eventually(t, func(ctx context.Context) error { return c.Get(ctx, keyOf(one.lease()), one.lease()) })
	lease := env.Get(t, c2, one.lease())
	lease.Spec.HolderIdentity = new("me")
	env.Must(t, c.Update(t.Context(), lease))
	manager := &coordinationv1.Lease{ObjectMeta: env.Meta(env.LeasesNamespace, v1alpha1.LeaseManager)}
	env.Eventually(t, func(ctx context.Context) error { return c.Get(ctx, keyOf(manager), manager) })

	all := client.InNamespace(env.LeasesNamespace)
	for what, err := range map[string]error{
		"reading the Lease of another": c.Get(t.Context(), keyOf(two.lease()), two.lease()),
		"writing the Lease of another": c.Update(t.Context(), env.Get(t, c2, two.lease())),
		"writing the manager's":        c.Update(t.Context(), env.Get(t, c2, manager)),
		"deleting its own":             c.Delete(t.Context(), lease),
		"listing":                      c.List(t.Context(), &coordinationv1.LeaseList{}, all),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want forbidden", what, err)
		}
	}
}

func keyOf(o client.Object) types.NamespacedName { return client.ObjectKeyFromObject(o) }
