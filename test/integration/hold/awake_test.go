package hold

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestASilentManagerGetsNoNewPodsAndStaysReady(t *testing.T) {
	i := connected(t)
	stop := present(t)
	original := i.target(t, c1)
	run(t, c1, "first", false)
	waitCondition(t, c1, original, v1alpha1.ConditionAwake, v1alpha1.ReasonAwake)
	virtualNode(t, c1, i.key(), hasTaint(false))

	stop()
	waitCondition(t, c1, original, v1alpha1.ConditionAwake, v1alpha1.ReasonSilent)
	env.WaitForEvent(t, c1, original, v1alpha1.ReasonSilent, "has not renewed its Lease")
	virtualNode(t, c1, i.key(), hasTaint(true))
	waitConnected(t, c1, original)
	virtualNode(t, c1, i.key(), readyIs(corev1.ConditionTrue))

	present(t)
	waitCondition(t, c1, original, v1alpha1.ConditionAwake, v1alpha1.ReasonAwake)
	virtualNode(t, c1, i.key(), hasTaint(false))
	env.Delete(t, c2, &coordinationv1.Lease{ObjectMeta: env.Meta(env.LeasesNamespace, v1alpha1.LeaseManager)})
}

// A target that is rolled back keeps a Lease that nobody renews.
func TestAManagerWhoseLeaseIsDeletedIsNotSilent(t *testing.T) {
	i := connected(t)
	stop := present(t)
	original := i.target(t, c1)
	run(t, c1, "first", false)
	waitCondition(t, c1, original, v1alpha1.ConditionAwake, v1alpha1.ReasonAwake)
	stop()
	silent := waitCondition(t, c1, original, v1alpha1.ConditionAwake, v1alpha1.ReasonSilent)
	command := "kubectl -n " + env.LeasesNamespace + " delete lease manager"
	if !strings.Contains(silent.Message, command) {
		t.Errorf("the message is %q, want %q in it", silent.Message, command)
	}
	virtualNode(t, c1, i.key(), hasTaint(true))

	env.Delete(t, c2, &coordinationv1.Lease{ObjectMeta: env.Meta(env.LeasesNamespace, v1alpha1.LeaseManager)})
	env.WaitFor(t, c1, original, func(o *v1alpha1.ClusterTarget) error {
		if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionAwake); c != nil {
			return fmt.Errorf("there is still %+v", c)
		}
		return nil
	})
	virtualNode(t, c1, i.key(), hasTaint(false))
	env.WaitForEvent(t, c1, original, v1alpha1.ReasonNoLease, "no Lease any more")
}

// hasTaint returns an error unless a node has the taint of silence, or has it not, and the one of virtual nodes.
func hasTaint(silent bool) func(*corev1.Node) error {
	return func(node *corev1.Node) error {
		has := func(key string) bool {
			return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == key && t.Effect == corev1.TaintEffectNoSchedule
			})
		}
		if has(v1alpha1.TaintSilent) != silent || !has(v1alpha1.LabelNodeProvider) {
			return fmt.Errorf("taints are %v", node.Spec.Taints)
		}
		return nil
	}
}
