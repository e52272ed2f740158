//go:build e2e && long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// movable creates a StatefulSet of one pod, which runs in c2 and may run in c1. It returns its delegate.
func (w *world) movable(t *testing.T, annotations map[string]string) corev1.Pod {
	t.Helper()
	template := quick(podTemplate("db"))
	impatient(&template, 5)
	for key, value := range annotations {
		template.Annotations[key] = value
	}
	return w.createdInC2(t, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: w.namespace},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Template: template,
		},
	})
}

// createdInC2 creates an object with one pod, which runs in c2 and may run in c1. It returns its delegate.
func (w *world) createdInC2(t *testing.T, of client.Object) corev1.Pod {
	t.Helper()
	uncordon := func() {
		ctx := context.WithoutCancel(t.Context())
		if out, err := runKubectl(ctx, "--context", "c1", "uncordon", "admiralty-c1"); err != nil {
			t.Errorf("uncordoning: %v\n%s", err, out)
		}
	}
	w.kubectl(t, "cordon", "admiralty-c1")
	t.Cleanup(uncordon)
	create(t, w.c1, of)
	before := w.quiet(t, 1)
	uncordon()
	if len(before.delegates["c2"]) != 1 {
		t.Fatalf("the pod is not in c2: %v", before.byNode)
	}
	return before.delegates["c2"][0]
}

// successor returns the pod db-0 in c1, if it is another one than before, and ready.
func (w *world) successor(ctx context.Context, before types.UID) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "db-0"}, pod); err != nil {
		return nil, err
	}
	if pod.UID == before || !ready(pod) || pod.Spec.NodeName != "admiralty-c1" {
		return nil, fmt.Errorf("pod %s on %s is %s, ready %v", pod.UID, pod.Spec.NodeName, pod.Status.Phase, ready(pod))
	}
	return pod, nil
}

// whenGone notes when a delegate is gone from c2, as its own API server shows it.
func (w *world) whenGone(t *testing.T, delegate corev1.Pod) <-chan time.Time {
	t.Helper()
	gone := make(chan time.Time, 1)
	go func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for t.Context().Err() == nil {
			pod := &corev1.Pod{}
			err := w.c2.Get(t.Context(), client.ObjectKeyFromObject(&delegate), pod)
			if apierrors.IsNotFound(err) || err == nil && pod.UID != delegate.UID {
				gone <- time.Now()
				return
			}
			<-ticker.C
		}
	}()
	return gone
}

func TestAFencedStatefulSetPodMovesAcrossAPartition(t *testing.T) {
	w := setUp(t)
	const fence = timeouts.FenceLeast
	delegate := w.movable(t, map[string]string{v1alpha1.AnnotationFenceAfter: "60"})
	proxy := types.UID(delegate.Labels[v1alpha1.LabelParentUID])
	if now := w.reaches(t, "db-0", corev1.PodRunning); now.Annotations[v1alpha1.AnnotationFencedAfter] != "60" {
		t.Fatalf("the proxy does not say that its delegate is fenced: %v", now.Annotations)
	}

	if len(processesOfProgram(t, delegate.UID, "whoami")) == 0 {
		t.Fatal("the delegate has no process")
	}
	heal := w.cutOffC2(t)
	cut := time.Now()
	gone := w.whenGone(t, delegate)
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionFalse, notReadyWithin)
	early := time.Until(cut.Add(fence - timeouts.HoldRenewal - 5*time.Second))
	holds(t, early, "db-0 runs in c2", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		err := w.c2.Get(ctx, client.ObjectKeyFromObject(&delegate), pod)
		if err == nil && pod.DeletionTimestamp != nil {
			err = fmt.Errorf("it is stopped %s after the partition", time.Since(cut))
		}
		return err
	})
	bound := timeouts.FenceHolds(fence, time.Second)
	var ended time.Time
	select {
	case ended = <-gone:
		t.Logf("the delegate was gone %s after the partition", ended.Sub(cut))
	case <-time.After(time.Until(cut.Add(bound))):
		t.Fatalf("the delegate still exists %s after the partition", bound)
	}
	if pids := processesOfProgram(t, delegate.UID, "whoami"); len(pids) > 0 {
		t.Errorf("processes %v of the delegate run on", pids)
	}
	var next *corev1.Pod
	limit := timeouts.FenceHoldsAfterRestart(fence, time.Second) + time.Minute
	within(t, limit, "db-0 to run in c1", func(ctx context.Context) (err error) {
		next, err = w.successor(ctx, proxy)
		return err
	})
	t.Logf("the next pod was made %s after the partition", next.CreationTimestamp.Sub(cut))
	if next.CreationTimestamp.Time.Before(ended.Truncate(time.Second)) {
		t.Errorf("the next pod was made at %s, and the delegate was gone at %s", next.CreationTimestamp, ended)
	}
	holds(t, 15*time.Second, "c2 does not make the delegate again", func(ctx context.Context) error {
		err := w.c2.Get(ctx, client.ObjectKeyFromObject(&delegate), &corev1.Pod{})
		if err == nil {
			return fmt.Errorf("it does")
		}
		return client.IgnoreNotFound(err)
	})

	heal()
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, readyWithin)
	if after := w.quiet(t, 1); after.proxies[0].UID != next.UID {
		t.Error("db-0 was replaced when c2 came back")
	}
}

// A pod of a Deployment is replaced when it is evicted. Its toleration is as short as fencing allows.
func TestAFencedPodOfADeploymentIsReplacedOnlyWhenItHasEnded(t *testing.T) {
	w := setUp(t)
	const fence, grace = timeouts.FenceLeast, time.Second
	holds := timeouts.FenceHolds(fence, grace)
	template := quick(podTemplate("web"))
	impatient(&template, int64(holds/time.Second))
	template.Annotations[v1alpha1.AnnotationFenceAfter] = "60"
	delegate := w.createdInC2(t, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: template,
		},
	})
	proxy := types.UID(delegate.Labels[v1alpha1.LabelParentUID])
	heal := w.cutOffC2(t)
	cut := time.Now()
	gone := w.whenGone(t, delegate)
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionFalse, notReadyWithin)
	var next *corev1.Pod
	within(t, holds+time.Minute, "another pod", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		err := w.c1.List(ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels{"app": "web"})
		for i := range pods.Items {
			if pods.Items[i].UID != proxy {
				next = &pods.Items[i]
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("%d pods", len(pods.Items)))
	})
	t.Logf("the next pod was made %s after the partition", next.CreationTimestamp.Sub(cut))
	select {
	case ended := <-gone:
		t.Logf("the delegate was gone %s after the partition", ended.Sub(cut))
	default:
		t.Errorf("there is another pod, and the delegate is not gone")
	}
	if pids := processesOfProgram(t, delegate.UID, "whoami"); len(pids) > 0 {
		t.Errorf("processes %v of the delegate run on", pids)
	}
	w.reaches(t, next.Name, corev1.PodRunning)
	heal()
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, readyWithin)
	if after := w.quiet(t, 1); after.proxies[0].UID != next.UID {
		t.Error("the pod was replaced when c2 came back")
	}
}

func TestOutOfServiceVirtualNodeIsLeftAtOnce(t *testing.T) {
	w := setUp(t)
	delegate := w.movable(t, nil)
	proxy := types.UID(delegate.Labels[v1alpha1.LabelParentUID])
	heal := w.cutOffC2(t)
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionFalse, notReadyWithin)
	const taint = "node.kubernetes.io/out-of-service"
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context()) // It may be gone already.
		_, _ = runKubectl(ctx, "--context", "c1", "taint", "node", "admiralty-c2", taint+"-")
	})
	w.kubectl(t, "taint", "node", "admiralty-c2", taint+"=nodeshutdown:NoExecute")
	var next *corev1.Pod
	within(t, 2*time.Minute, "db-0 to run in c1", func(ctx context.Context) (err error) {
		next, err = w.successor(ctx, proxy)
		return err
	})
	if pod := (&corev1.Pod{}); w.c2.Get(t.Context(), client.ObjectKeyFromObject(&delegate), pod) != nil {
		t.Error("the delegate in c2 is gone, which nobody could have ended")
	}

	heal()
	gone(t, w.c2, &delegate)
	within(t, time.Minute, "the node to be Ready and keep the taint", func(ctx context.Context) error {
		node := &corev1.Node{}
		if err := w.c1.Get(ctx, client.ObjectKey{Name: "admiralty-c2"}, node); err != nil {
			return err
		}
		for _, has := range node.Spec.Taints {
			if has.Key == taint {
				return w.nodeIs(ctx, "admiralty-c2", corev1.ConditionTrue)
			}
		}
		return fmt.Errorf("taints are %v", node.Spec.Taints)
	})
	w.kubectl(t, "taint", "node", "admiralty-c2", taint+"-")
	if after := w.quiet(t, 1); after.proxies[0].UID != next.UID {
		t.Error("db-0 was replaced when c2 came back")
	}
}
