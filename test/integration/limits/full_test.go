package limits

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const full = "database space exceeded"

// A pod that meets a full target goes elsewhere. The target then counts as lost, and says why. Once it has room,
// everything goes on.
func TestATargetWhoseEtcdIsFull(t *testing.T) {
	runSource(t)
	in := namespace(t)
	runs, ends, deleted := create(t, in, "runs", c2), create(t, in, "ends", c2), create(t, in, "deleted", c2)
	for _, proxy := range []*corev1.Pod{runs, ends, deleted} {
		waitRunning(t, proxy, c2)
	}
	c2.Fill(t)
	elsewhere, waits := create(t, in, "elsewhere"), create(t, in, "waits", c2)
	kubelets[c2].finish(delegateOf(ends))
	env.Delete(t, c1, deleted)
	waitRunning(t, elsewhere, c3)
	env.WaitForEvent(t, c1, elsewhere, "FailedScheduling", full)
	waitConnected(t, c2, v1alpha1.ReasonStorageFull, "etcd is full")
	waitReady(t, c2, corev1.ConditionUnknown)
	if !env.Exists(t, c1, deleted) {
		t.Error("a proxy is gone although its delegate may run")
	}

	c2.MakeRoom(t)
	waitConnected(t, c2, v1alpha1.ReasonConnected, "")
	waitReady(t, c2, corev1.ConditionTrue)
	waitRunning(t, waits, c2)
	waitPhase(t, ends, corev1.PodSucceeded)
	env.WaitGone(t, c1, deleted)
	for _, proxy := range []*corev1.Pod{runs, ends, elsewhere, waits} {
		expectOneDelegate(t, proxy)
	}
	waitRunning(t, runs, c2)
	empty(t, in)
}

// While the source cannot write, nothing is lost or doubled, also if the next leader begins then.
func TestASourceWhoseEtcdIsFull(t *testing.T) {
	leader := runSource(t)
	in := namespace(t)
	runs, ends := create(t, in, "runs", c2), create(t, in, "ends", c2)
	for _, proxy := range []*corev1.Pod{runs, ends} {
		waitRunning(t, proxy, c2)
	}
	kubelets[c2].pause(true)
	t.Cleanup(func() { kubelets[c2].pause(false) })
	var begun []*corev1.Pod
	for i := range 3 {
		begun = append(begun, create(t, in, fmt.Sprintf("begun-%d", i), c2))
	}
	for _, proxy := range begun {
		waitPlaced(t, proxy, c2)
	}
	c1.Fill(t)
	kubelets[c2].finish(delegateOf(ends))
	kubelets[c2].pause(false)
	for _, proxy := range begun {
		waitDelegate(t, c2, proxy, corev1.PodRunning)
	}
	waitDelegate(t, c2, ends, corev1.PodSucceeded)
	leader.stop()
	go c1.MakeRoom(t)
	runSource(t)

	for _, proxy := range begun {
		waitRunning(t, proxy, c2)
		expectOneDelegate(t, proxy)
	}
	waitPhase(t, ends, corev1.PodSucceeded)
	expectOneDelegate(t, ends)
	expectOneDelegate(t, runs)
	empty(t, in)
}

func delegateOf(proxy *corev1.Pod) client.ObjectKey {
	return client.ObjectKey{Namespace: proxy.Namespace, Name: translate.DelegateName(proxy)}
}

// waitDelegate waits until the PodChaperon of a proxy shows a phase.
func waitDelegate(t *testing.T, in *env.Cluster, proxy *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	key := delegateOf(proxy)
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: env.Meta(key.Namespace, key.Name)}
	env.WaitFor(t, in, chaperon, func(chaperon *v1alpha1.PodChaperon) error {
		if chaperon.Status.Phase != phase {
			return fmt.Errorf("phase is %s, want %s", chaperon.Status.Phase, phase)
		}
		return nil
	})
}

// empty deletes the proxies of a namespace. Nothing may be left in the targets.
func empty(t *testing.T, namespace string) {
	t.Helper()
	env.Must(t, c1.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(namespace)))
	waitNone(t, c2, namespace)
	waitNone(t, c3, namespace)
}
