package limits

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// kubelet plays the scheduler and the kubelets of a target. It goes on while their writes fail.
type kubelet struct {
	cluster *env.Cluster

	mu     sync.Mutex // guards the fields below
	paused bool
	// finished are the pods whose containers have ended well, and started counts the pods that were started.
	finished map[types.NamespacedName]bool
	started  map[types.NamespacedName]int
}

func runKubelet(t env.T, in *env.Cluster) *kubelet {
	t.Helper()
	k := &kubelet{
		cluster: in, finished: map[types.NamespacedName]bool{}, started: map[types.NamespacedName]int{},
	}
	env.Run(t, func(ctx context.Context) error {
		wait.UntilWithContext(ctx, k.sync, 200*time.Millisecond)
		return nil
	})
	return k
}

// pause keeps the kubelet from doing anything until the test ends or it is called again.
func (k *kubelet) pause(paused bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.paused = paused
}

// finish ends the containers of a pod.
func (k *kubelet) finish(pod types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finished[pod] = true
}

// sync does what is to be done now. What fails is tried again the next time.
func (k *kubelet) sync(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pods := &corev1.PodList{}
	if k.paused || k.cluster.Client.List(ctx, pods) != nil {
		return
	}
	for i := range pods.Items {
		_ = k.syncPod(ctx, &pods.Items[i])
	}
}

func (k *kubelet) syncPod(ctx context.Context, pod *corev1.Pod) error {
	key := client.ObjectKeyFromObject(pod)
	is := pod.DeepCopy()
	switch {
	case pod.DeletionTimestamp != nil:
		return k.cluster.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
	case pod.Spec.NodeName == "":
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}
		return k.cluster.Client.SubResource("binding").Create(ctx, pod, binding)
	case k.finished[key] && pod.Status.Phase != corev1.PodSucceeded:
		is.Status.Phase = corev1.PodSucceeded
	case pod.Status.Phase == corev1.PodPending:
		is.Status.Phase = corev1.PodRunning
	default:
		return nil
	}
	err := k.cluster.Client.Status().Patch(ctx, is, client.MergeFrom(pod))
	if err == nil && is.Status.Phase == corev1.PodRunning {
		k.started[key]++
	}
	return err
}

// startedOf returns how many pods of a proxy were started in this target.
func (k *kubelet) startedOf(proxy *corev1.Pod) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.started[types.NamespacedName{Namespace: proxy.Namespace, Name: translate.DelegateName(proxy)}]
}

// expectOneDelegate fails the test unless a proxy's pod was started once, in one target.
func expectOneDelegate(t *testing.T, proxy *corev1.Pod) {
	t.Helper()
	if in2, in3 := kubelets[c2].startedOf(proxy), kubelets[c3].startedOf(proxy); in2+in3 != 1 {
		t.Errorf("%s was started %d times in c2, and %d times in c3", proxy.Name, in2, in3)
	}
}

func nodeOf(cluster *env.Cluster) string {
	return translate.VirtualNodeName(types.NamespacedName{Name: cluster.Name})
}

// namespace creates a namespace in all clusters.
func namespace(t *testing.T) string {
	t.Helper()
	name := env.Namespace(t, env.Enabled(), c1, c2, c3)
	for _, cluster := range []*env.Cluster{c2, c3} {
		env.Ensure(t, cluster, &corev1.ServiceAccount{ObjectMeta: env.Meta(name, "default")})
	}
	return name
}

// create creates a proxy. It may run in all targets, unless some are given.
func create(t *testing.T, namespace, name string, only ...*env.Cluster) *corev1.Pod {
	t.Helper()
	proxy := env.Proxy(namespace, name)
	// No controller removes the taint of nodes that are new.
	proxy.Spec.Tolerations = []corev1.Toleration{
		{Key: v1alpha1.LabelNodeProvider, Operator: corev1.TolerationOpExists},
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists},
	}
	for _, cluster := range only {
		proxy.Spec.NodeSelector = map[string]string{corev1.LabelHostname: nodeOf(cluster)}
	}
	env.Create(t, c1, proxy)
	return proxy
}

// waitRunning waits until a proxy is bound to a target and shows that its delegate runs.
func waitRunning(t *testing.T, proxy *corev1.Pod, in *env.Cluster) {
	t.Helper()
	waitPhase(t, proxy, corev1.PodRunning)
	if proxy.Spec.NodeName != nodeOf(in) {
		t.Errorf("%s runs on %q, want %s", proxy.Name, proxy.Spec.NodeName, nodeOf(in))
	}
}

func waitPhase(t *testing.T, proxy *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	env.WaitFor(t, c1, proxy, func(proxy *corev1.Pod) error {
		if proxy.Status.Phase != phase {
			return fmt.Errorf("on node %q in phase %s: %v", proxy.Spec.NodeName, proxy.Status.Phase,
				proxy.Status.Conditions)
		}
		return nil
	})
}

// waitConnected waits until the condition Connected of a target has a reason, and a message that contains a text.
func waitConnected(t env.T, cluster *env.Cluster, reason, text string) {
	t.Helper()
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name}}
	env.WaitFor(t, c1, object, func(object *v1alpha1.ClusterTarget) error {
		c := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionConnected)
		if c == nil || c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("the condition is %+v, want %s, %q", c, reason, text)
		}
		return nil
	})
}

// waitReady waits until the virtual node of a target has a state.
func waitReady(t env.T, cluster *env.Cluster, status corev1.ConditionStatus) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(cluster)}}
	env.WaitFor(t, c1, node, func(node *corev1.Node) error {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == status {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v, want Ready=%s", node.Status.Conditions, status)
	})
}

// waitPlaced waits until the PodChaperon of a proxy exists in a target.
func waitPlaced(t *testing.T, proxy *corev1.Pod, in *env.Cluster) {
	t.Helper()
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: env.Meta(proxy.Namespace, translate.DelegateName(proxy))}
	env.WaitFor(t, in, chaperon, func(*v1alpha1.PodChaperon) error { return nil })
}

// waitNone waits until a target has no PodChaperons in a namespace.
func waitNone(t *testing.T, in *env.Cluster, namespace string) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error {
		list := &v1alpha1.PodChaperonList{}
		if err := in.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return errors.New("there are PodChaperons in " + in.Name)
		}
		return nil
	})
}
