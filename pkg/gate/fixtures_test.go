package gate

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// keyTime is when the key of the proofs was made.
var keyTime = time.Unix(1000, 0)

// readable is a Verifier whose proofs can be read.
type readable struct{}

func (readable) Verify(claim proof.Claim, proof string) bool {
	return proof == proofOf(claim.UID, claim.Proxy, claim.Target)
}

func (readable) CreatedAt() time.Time { return keyTime }

func proofOf(uid types.UID, proxy, target types.NamespacedName) string {
	return fmt.Sprintf("%s is %s in %s", uid, proxy, target)
}

var c2 = types.NamespacedName{Namespace: "team", Name: "c2"}

// newGate returns the gate of the Target c2 of the namespace team, in a source with these pods.
func newGate(t testing.TB, pods ...client.Object) *Gate {
	t.Helper()
	return &Gate{
		Key:      c2,
		NodeName: "admiralty-team-c2",
		Allows:   func(namespace string) bool { return namespace == "team" },
		Verifier: readable{},
		Proxies:  fake.NewClientBuilder().WithObjects(pods...).Build(),
	}
}

// newProxy returns a proxy that is as old as the key, changed as asked for.
func newProxy(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "web", UID: "1", CreationTimestamp: metav1.Time{Time: keyTime},
	}}
	pod.Spec.SchedulerName = v1alpha1.SchedulerName
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func boundTo(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = node }
}

// newChaperon returns the PodChaperon of a proxy in c2, with its proof, changed as asked for.
func newChaperon(proxy *corev1.Pod, changes ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
		Namespace: proxy.Namespace, Name: translate.DelegateName(proxy), UID: "of-1", ResourceVersion: "1",
		Labels: map[string]string{v1alpha1.LabelParentUID: string(proxy.UID), "other": "label"},
		Annotations: map[string]string{
			v1alpha1.AnnotationParentNamespace: proxy.Namespace,
			v1alpha1.AnnotationParentName:      proxy.Name,
			v1alpha1.AnnotationProof:           proofOf(proxy.UID, client.ObjectKeyFromObject(proxy), c2),
		},
	}}
	chaperon.Spec.Containers = []corev1.Container{{Name: "app"}}
	for _, change := range changes {
		change(chaperon)
	}
	return chaperon
}

func unproven(chaperon *v1alpha1.PodChaperon) { delete(chaperon.Annotations, v1alpha1.AnnotationProof) }
