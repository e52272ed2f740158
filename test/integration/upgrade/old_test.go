package upgrade

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	prefix = "multicluster.admiralty.io/"
	shop   = "shop"
	// targetName is the ClusterTarget, and virtualNode its node.
	targetName, virtualNode = "c2", "admiralty-c2"
	// targetHash is that of the ClusterTarget: the first ten digits of the SHA-256 of admiralty//c2.
	targetHash = "b60eba1a49"
	worker     = "worker"
)

// oldSource is a source of the target, with the rights and the objects of before.
type oldSource struct {
	name, clusterID, user string
	client                client.Client
	login                 *env.Context
}

// newOldSource connects a source as the old CLI and manager did: a ClusterSource without cluster ID and selector, a
// service account, and rights in the whole cluster. Its kubeconfig has a token that nobody renews.
func newOldSource(t *testing.T, name string) *oldSource {
	t.Helper()
	marked := map[string]string{prefix + "source": ""}
	account := &corev1.ServiceAccount{ObjectMeta: env.Meta(env.ReleaseNamespace, name)}
	account.Labels = marked
	login := target.Token(t, account)
	object := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.Spec.ServiceAccount = &v1alpha1.ServiceAccountReference{Namespace: env.ReleaseNamespace, Name: name}
	env.Create(t, target, object)
	for binding, role := range map[string]string{
		"multicluster-source:" + name: env.SourceRole, "multicluster-source-viewer:" + name: env.SummaryViewerRole,
	} {
		env.Ensure(t, target, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: binding, Labels: marked, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterSource", Name: name, UID: object.UID,
			}}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.ReleaseNamespace, Name: name}},
		})
	}
	return &oldSource{
		name: name, clusterID: "id-of-" + name, user: env.ServiceAccountUser(env.ReleaseNamespace, name),
		client: env.ClientFor(t, login), login: &env.Context{Name: "x", Login: login},
	}
}

// createOldRoles creates the roles of sources as the old chart had them.
func createOldRoles(t *testing.T) {
	t.Helper()
	ours, reads := v1alpha1.GroupName, []string{"get", "list", "watch"}
	readAndWrite := []string{"create", "get", "list", "watch", "patch", "delete"}
	env.Ensure(t, target,
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: env.SourceRole},
			Rules: []rbacv1.PolicyRule{
				env.Rule(ours, []string{"podchaperons"}, readAndWrite...),
				env.Rule("", []string{"pods/log"}, "get"), env.Rule("", []string{"pods/exec"}, "create", "get"),
				env.Rule("", []string{"configmaps", "secrets"}, "create", "update", "delete"),
				env.Rule("", []string{"serviceaccounts"}, "create", "get", "patch", "delete"),
				env.Rule("", []string{"persistentvolumeclaims", "services"}, readAndWrite...),
				env.Rule("discovery.k8s.io", []string{"endpointslices"}, readAndWrite...),
				env.Rule("networking.k8s.io", []string{"ingresses"}, readAndWrite...),
			},
		},
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: env.SummaryViewerRole},
			Rules: []rbacv1.PolicyRule{
				env.Rule(ours, []string{"clustersummaries"}, reads...),
				env.Rule("storage.k8s.io", []string{"storageclasses"}, reads...),
			},
		})
}

func room() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
}

// createOldTarget creates a node of the target, and the ClusterSummary that the old manager published.
func createOldTarget(t *testing.T) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: worker}}
	env.Create(t, target, node)
	env.Change(t, target, node, func(n *corev1.Node) { n.Spec.Taints = nil }) // Nobody else takes off not-ready.
	env.ChangeStatus(t, target, node, func(n *corev1.Node) {
		n.Status.Capacity, n.Status.Allocatable = room(), room()
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	summary.Capacity, summary.Allocatable = room(), room()
	env.Ensure(t, target, summary)
	env.ChangeStatus(t, target, summary, func(s *v1alpha1.ClusterSummary) {
		s.Status = v1alpha1.ClusterSummaryStatus{
			ClusterID: "id-of-c2", Nodes: 1, Classes: []v1alpha1.NodeClass{{
				Nodes: 1, Allocatable: room(), Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: room()}},
			}},
		}
	})
}

// createOldConnection creates the ClusterTarget of the source, its Secret and its virtual node.
func createOldConnection(t *testing.T, c1 *oldSource) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, targetName)}
	secret.Data = map[string][]byte{"config": env.Kubeconfig(t, *c1.login)}
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: targetName}}
	object.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
		Namespace: env.ReleaseNamespace, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: targetName},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: virtualNode, Labels: map[string]string{
		"type": "virtual-kubelet", "virtual-kubelet.io/provider": "admiralty", "kubernetes.io/role": "cluster",
		"kubernetes.io/hostname": virtualNode, prefix + "cluster-target-name": targetName,
		"node.kubernetes.io/exclude-from-external-load-balancers": "true",
	}}}
	node.Spec.Taints = []corev1.Taint{
		{Key: "virtual-kubelet.io/provider", Value: "admiralty", Effect: corev1.TaintEffectNoSchedule},
	}
	env.Create(t, source, secret, object, node)
}

// createOldPod creates a proxy that runs: the proxy, its PodChaperon and its delegate.
func createOldPod(t *testing.T, c1 *oldSource, name string) *corev1.Pod {
	t.Helper()
	running := corev1.PodStatus{
		Phase:      corev1.PodRunning,
		StartTime:  &metav1.Time{Time: time.Now().Add(-time.Hour).Truncate(time.Second)},
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
	}
	proxy := env.Proxy(shop, name)
	proxy.Labels = map[string]string{"app": "web"}
	env.Create(t, source, proxy)
	env.Bind(t, source, proxy, virtualNode)
	env.ChangeStatus(t, source, proxy, func(p *corev1.Pod) { p.Status = running })
	c1.place(t, proxy)
	setOldStatus(t, proxy, running)
	return proxy
}

// createOldWaitingPod creates a proxy that waits for the target's decision: nothing in the source names the target.
func createOldWaitingPod(t *testing.T, c1 *oldSource, name string) *corev1.Pod {
	t.Helper()
	proxy := env.Proxy(shop, name)
	proxy.Labels = map[string]string{"app": "web"}
	proxy.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	env.Create(t, source, proxy)
	c1.place(t, proxy)
	return proxy
}

// createOldUnlabelledPod creates a proxy that runs, and whose PodChaperon lost the label that names its target.
func createOldUnlabelledPod(t *testing.T, c1 *oldSource, name string) *corev1.Pod {
	t.Helper()
	proxy := createOldPod(t, c1, name)
	env.Change(t, target, chaperonOf(proxy), func(c *v1alpha1.PodChaperon) { delete(c.Labels, prefix+"target-hash") })
	return proxy
}

// setOldStatus plays the kubelet and the manager of the old target: the delegate exists and has a status, and so does
// the PodChaperon.
func setOldStatus(t *testing.T, proxy *corev1.Pod, status corev1.PodStatus) {
	t.Helper()
	chaperon := chaperonOf(proxy)
	env.WaitFor(t, target, chaperon, func(*v1alpha1.PodChaperon) error { return nil })
	yes := true
	delegate := &corev1.Pod{Spec: env.PodSpec(), ObjectMeta: metav1.ObjectMeta{
		Namespace: shop, Name: chaperon.Name, Labels: chaperon.Labels, Annotations: chaperon.Annotations,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodChaperon", Name: chaperon.Name, UID: chaperon.UID,
			Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}}
	delegate.Spec.NodeName = worker
	env.Ensure(t, target, delegate)
	env.ChangeStatus(t, target, delegate, func(p *corev1.Pod) { p.Status = status })
	env.ChangeStatus(t, target, chaperon, func(c *v1alpha1.PodChaperon) { c.Status = status })
}

// place creates the PodChaperon of a proxy as the old source did: without target-id and proof.
func (c *oldSource) place(t *testing.T, proxy *corev1.Pod) *v1alpha1.PodChaperon {
	t.Helper()
	chaperon := c.chaperon(proxy.Name, proxy.UID)
	env.Must(t, c.client.Create(t.Context(), chaperon))
	return chaperon
}

func (c *oldSource) chaperon(proxy string, uid types.UID) *v1alpha1.PodChaperon {
	return &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shop, Name: translate.DelegateNameOf(proxy, uid),
			Labels: map[string]string{
				prefix + "app": "web", prefix + "parent-uid": string(uid), prefix + "parent-cluster-id": c.clusterID,
				prefix + "parent-cluster-name": c.name, prefix + "target-hash": targetHash,
			},
			Annotations: map[string]string{prefix + "parent-name": proxy, prefix + "parent-namespace": shop},
		},
		Spec: env.PodSpec(),
	}
}

// copied is the metadata of a copy as the old source wrote it.
func (c *oldSource) copied(name string) metav1.ObjectMeta {
	meta := env.Meta(shop, name)
	meta.Labels = map[string]string{prefix + "parent-cluster-id": c.clusterID, prefix + "parent-cluster-name": c.name}
	meta.Annotations = map[string]string{prefix + "followed-by": c.user}
	return meta
}
