package restored

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// step is how often the played parts of Kubernetes look.
const step = 100 * time.Millisecond

// play plays the rest of Kubernetes in both clusters: kubelet, scheduler and garbage collectors. Errors are those of
// API servers that are away.
func play(t env.T) {
	t.Helper()
	env.Run(t, func(ctx context.Context) error {
		ticker := time.NewTicker(step)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			playKubelet(ctx)
			playGarbageCollector(ctx)
			playPodGarbageCollector(ctx)
		}
	})
}

// playKubelet runs delegates, and confirms that they have ended.
func playKubelet(ctx context.Context) {
	pods := &corev1.PodList{}
	if target.Client.List(ctx, pods, client.InNamespace(shop)) != nil {
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case pod.DeletionTimestamp != nil:
			_ = target.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		case pod.Spec.NodeName == "":
			binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "worker"}}
			_ = target.Client.SubResource("binding").Create(ctx, pod, binding)
		case pod.Status.Phase == corev1.PodPending:
			running := pod.DeepCopy()
			running.Status.Phase = corev1.PodRunning
			running.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			}
			_ = target.Client.Status().Patch(ctx, running, client.MergeFrom(pod))
		}
	}
}

// playGarbageCollector deletes delegates whose PodChaperons go or are gone, and ends foreground deletions.
func playGarbageCollector(ctx context.Context) {
	chaperons, pods := &v1alpha1.PodChaperonList{}, &corev1.PodList{}
	// Pods come first: the PodChaperon of each exists then, or never will again.
	if target.Client.List(ctx, pods, client.InNamespace(shop)) != nil ||
		target.Client.List(ctx, chaperons, client.InNamespace(shop)) != nil {
		return
	}
	for i := range chaperons.Items {
		chaperon := &chaperons.Items[i]
		owns := slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return ownedBy(&pod, chaperon.UID) })
		if chaperon.DeletionTimestamp != nil && !owns {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			_ = target.Client.Patch(ctx, chaperon, patch)
		}
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		kept := slices.ContainsFunc(chaperons.Items, func(chaperon v1alpha1.PodChaperon) bool {
			return ownedBy(pod, chaperon.UID) && chaperon.DeletionTimestamp == nil
		})
		if !kept && pod.DeletionTimestamp == nil {
			_ = target.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		}
	}
}

func ownedBy(pod *corev1.Pod, owner types.UID) bool {
	return slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner })
}

// playPodGarbageCollector deletes pods of virtual nodes that do not exist any more.
func playPodGarbageCollector(ctx context.Context) {
	pods := &corev1.PodList{}
	if source.Client.List(ctx, pods, client.InNamespace(shop)) != nil {
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName == "" {
			continue
		}
		err := source.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &corev1.Node{})
		if apierrors.IsNotFound(err) {
			_ = source.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		}
	}
}

// checker looks at both clusters from outside.
type checker struct {
	mu sync.Mutex // guards the fields below
	// delegates are the UIDs of all delegates that were ever seen, by the UIDs of their proxies.
	delegates map[types.UID][]types.UID
	faults    []string
}

// check starts a checker. At the end of the test it reports each proxy that had two delegates. If the test has failed,
// it shows what the managers have printed.
func check(t *testing.T) *checker {
	t.Helper()
	showLogs(t)
	c := &checker{delegates: map[types.UID][]types.UID{}}
	stop := env.Run(t, func(ctx context.Context) error {
		ticker := time.NewTicker(step)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				c.look(ctx)
			}
		}
	})
	t.Cleanup(func() {
		stop()
		for _, fault := range c.faults {
			t.Error(fault)
		}
	})
	return c
}

func (c *checker) look(ctx context.Context) {
	pods := &corev1.PodList{}
	if target.Client.List(ctx, pods, client.InNamespace(shop)) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := map[types.UID]types.UID{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		proxy := types.UID(pod.Labels[v1alpha1.LabelParentUID])
		if other, ok := now[proxy]; ok {
			c.faults = append(c.faults, fmt.Sprintf("proxy %s has the delegates %s and %s", proxy, other, pod.UID))
		}
		now[proxy] = pod.UID
		if !slices.Contains(c.delegates[proxy], pod.UID) {
			c.delegates[proxy] = append(c.delegates[proxy], pod.UID)
		}
	}
}

// of returns all delegates that a proxy ever had.
func (c *checker) of(proxy *corev1.Pod) []types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.delegates[proxy.UID])
}
