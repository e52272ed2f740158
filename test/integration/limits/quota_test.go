package limits

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const chaperons = corev1.ResourceName("count/podchaperons.multicluster.admiralty.io")

// A pod that meets a quota goes elsewhere. One that can run nowhere else waits, and is placed when the quota is raised.
func TestAQuotaOnPodChaperons(t *testing.T) {
	runSource(t)
	in := namespace(t)
	env.ForbidAll(t, c2, in, chaperons)
	cordon := func(is bool) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(c3)}}
		env.Change(t, c1, node, func(n *corev1.Node) { n.Spec.Unschedulable = is })
	}
	cordon(true)
	waits, elsewhere := create(t, in, "waits", c2), create(t, in, "elsewhere")
	const text = "exceeded quota: none, requested: count/podchaperons.multicluster.admiralty.io=1"
	env.WaitForEvent(t, c1, waits, "FailedScheduling", "c2: refused: ")
	env.WaitForEvent(t, c1, waits, "FailedScheduling", text)
	env.WaitForEvent(t, c1, elsewhere, "FailedScheduling", text)
	cordon(false)
	waitRunning(t, elsewhere, c3)

	quota := &corev1.ResourceQuota{ObjectMeta: env.Meta(in, "none")}
	more := corev1.ResourceList{chaperons: resource.MustParse("1")}
	env.Change(t, c2, quota, func(q *corev1.ResourceQuota) { q.Spec.Hard = more })
	env.ChangeStatus(t, c2, quota, func(q *corev1.ResourceQuota) { q.Status.Hard = more })
	waitRunning(t, waits, c2)
	expectOneDelegate(t, waits)
	empty(t, in)
}
