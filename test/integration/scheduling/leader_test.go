package scheduling

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// connected creates the ClusterTarget of a target, as an earlier leader left it.
func connected(t *testing.T, name string) {
	t.Helper()
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.Spec.Self = true // It is not connected by this.
	env.Create(t, source, object)
	env.ChangeStatus(t, source, object, func(object *v1alpha1.ClusterTarget) {
		object.Status.KubernetesVersion = "v1.37.1"
		object.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected,
			LastTransitionTime: metav1.Now(),
		}}
	})
}

// TestANewLeaderAfterAnOutagePlacesNoPodTwice has a node that became Unknown, because nobody renewed its Lease.
func TestANewLeaderAfterAnOutagePlacesNoPodTwice(t *testing.T) {
	s := start(t, long, preferC1())
	s.answer("c1", nil)
	pod := s.pod(t, "web", "1")
	before := s.placed(t, "c1", 1)
	s.stop()
	connected(t, "c1")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.targets["c1"].NodeName}}
	env.ChangeStatus(t, source, node, func(node *corev1.Node) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	})
	s.targets["c1"].write(t, before, running)

	s.run(t, long, "c1")
	if message := messageOf(t, pod); !strings.Contains(message, "waits for c1, where an earlier manager") {
		t.Errorf("message is %q", message)
	}
	later := s.pod(t, "later", "1")
	expectBound(t, later, "c2") // It was created after the manager began, so it does not wait.
	s.targets["c1"].engage(t, s.registry)
	expectBound(t, pod, "c1")
	s.placed(t, "c2", 1)
}

func TestAPodThatRunsIsBoundToACordonedNode(t *testing.T) {
	s := start(t, long, preferC1())
	s.answer("c1", nil)
	pod := s.pod(t, "web", "1")
	before := s.placed(t, "c1", 1)
	s.stop()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.targets["c1"].NodeName}}
	env.Change(t, source, node, func(node *corev1.Node) { node.Spec.Unschedulable = true })
	s.targets["c1"].write(t, before, running)
	s.run(t, long)
	expectBound(t, pod, "c1")
	s.placed(t, "c2", 0)
}

func TestTheNextPodOfANameWaitsForTheLastDelegate(t *testing.T) {
	s := start(t, long, preferC1())
	s.targets["c1"].slow.Store(true)
	s.answer("c1", nil)
	pod := s.pod(t, "web-0", "1")
	before := s.placed(t, "c1", 1)
	env.Delete(t, source, pod, client.GracePeriodSeconds(0)) // As a StatefulSet's controller does, it is not bound.
	next := s.pod(t, "web-0", "1")
	if message := messageOf(t, next); !strings.Contains(message, "is still ending in c1") {
		t.Errorf("message is %q", message)
	}
	s.placed(t, "c2", 0)
	s.answer("c1", running)
	s.targets["c1"].release(t, env.Get(t, cluster1, before))
	bound(t, next)
}
