package env

import (
	"context"
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Namespace creates a namespace for a test in the first cluster, with labels, and one of the same name in the others.
// It returns the name. The namespaces stay, because nothing empties namespaces here.
func Namespace(t T, labels map[string]string, first *Cluster, others ...*Cluster) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels}}
	Create(t, first, namespace)
	for _, cluster := range others {
		Create(t, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name}})
	}
	return namespace.Name
}

// Enabled returns the labels of a namespace whose pods may be elected.
func Enabled() map[string]string {
	return map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue}
}

// Meta returns the name of an object in a namespace.
func Meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// Proxy returns a proxy, as admission makes it, that does not exist yet.
func Proxy(namespace, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: Meta(namespace, name), Spec: PodSpec()}
	pod.Annotations = map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"}
	pod.Spec.SchedulerName = v1alpha1.SchedulerName
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// PodSpec returns the smallest spec of a pod that API servers accept.
func PodSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}}
}

// Chaperon returns the PodChaperon of a proxy of some name, as a source makes it for a target. Neither it nor the proxy
// exists.
func Chaperon(namespace, proxy, sourceID string, target types.NamespacedName) *v1alpha1.PodChaperon {
	return ChaperonOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: proxy, UID: uuid.NewUUID(),
	}}, sourceID, target)
}

// ChaperonOf is Chaperon for a proxy that exists.
func ChaperonOf(proxy *corev1.Pod, sourceID string, target types.NamespacedName) *v1alpha1.PodChaperon {
	uid, key := proxy.UID, client.ObjectKeyFromObject(proxy)
	proved, _ := Sign(proof.Claim{UID: uid, Proxy: key, Target: target})
	chaperon := &v1alpha1.PodChaperon{
		ObjectMeta: Meta(key.Namespace, translate.DelegateNameOf(key.Name, uid)), Spec: PodSpec(),
	}
	chaperon.Labels = map[string]string{
		v1alpha1.LabelParentUID:       string(uid),
		v1alpha1.LabelParentClusterID: sourceID,
		v1alpha1.LabelTargetHash:      translate.TargetHash(target),
	}
	chaperon.Annotations = map[string]string{
		v1alpha1.AnnotationParentNamespace: key.Namespace,
		v1alpha1.AnnotationParentName:      key.Name,
		v1alpha1.AnnotationProof:           proved,
	}
	return chaperon
}

// VirtualNode returns a virtual node that does not exist yet.
func VirtualNode(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Labels = map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}
	return node
}

// ForbidAll has a quota, which it returns, refuse every object of a resource in a namespace, and Leases. It plays the
// controller of quotas, and waits until the API server knows.
func ForbidAll(t T, c *Cluster, namespace string, resource corev1.ResourceName) *corev1.ResourceQuota {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: Meta(namespace, "none")}
	quota.Spec.Hard = corev1.ResourceList{resource: {}, "count/leases.coordination.k8s.io": {}}
	Create(t, c, quota)
	ChangeStatus(t, c, quota, func(q *corev1.ResourceQuota) {
		q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: q.Spec.Hard}
	})
	Eventually(t, func(ctx context.Context) error {
		probe := &coordinationv1.Lease{ObjectMeta: Meta(namespace, "probe")}
		err := c.Client.Create(ctx, probe, client.DryRunAll)
		switch {
		case err == nil:
			return errors.New("the quota does not hold yet")
		case apierrors.IsForbidden(err):
			return nil
		}
		return err
	})
	return quota
}
