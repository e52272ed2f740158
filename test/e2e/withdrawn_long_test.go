//go:build e2e && long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// TestADelegateThatGetsANodeWhenItIsGivenUpStays has a target whose manager does not show that the delegate has a node,
// until the source has given the delegate up.
func TestADelegateThatGetsANodeWhenItIsGivenUpStays(t *testing.T) {
	w := setUp(t)
	w.policy(t, "c2", `{"placementTimeout":"10s"}`)
	w.endWell(t, "thaw", "c2", "kube-scheduler")
	clusters(t.Context(), t, "freeze", "c2", "kube-scheduler")
	template := inTarget("c2", podTemplate("once", "sleep", "20s"))
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	create(t, w.c1, w.pod("once", template))
	before := w.delegateInC2(t, "without a node", func(*corev1.Pod) bool { return true })

	managers(t.Context(), t, w.c2, 2)
	pods, err := w.c2.managerPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := func(s syscall.Signal) {
		for i := range pods {
			signal(t, &pods[i], s)
		}
	}
	t.Cleanup(func() { all(syscall.SIGCONT) })
	all(syscall.SIGSTOP)
	eventually(t, "the source to give the delegate up", func(ctx context.Context) error {
		chaperon := &v1alpha1.PodChaperon{}
		if err := w.c2.Get(ctx, client.ObjectKeyFromObject(before), chaperon); err != nil {
			return err
		}
		if _, withdrawn := chaperon.Annotations[v1alpha1.AnnotationWithdrawn]; !withdrawn {
			return fmt.Errorf("its annotations are %v", chaperon.Annotations)
		}
		return nil
	})
	clusters(t.Context(), t, "thaw", "c2", "kube-scheduler")
	w.delegateInC2(t, "on a node", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
	all(syscall.SIGCONT)

	proxy := w.reaches(t, "once", corev1.PodSucceeded)
	if where, after := w.delegateOf(t, proxy); where != w.c2 || after.UID != before.UID {
		t.Errorf("it ran again: %s in %s, UID %s, not %s", after.Name, where.name, after.UID, before.UID)
	}
}

// delegateInC2 waits until the one delegate in c2 is as it should be.
func (w *world) delegateInC2(t *testing.T, how string, is func(*corev1.Pod) bool) (delegate *corev1.Pod) {
	t.Helper()
	eventually(t, "a delegate "+how, func(ctx context.Context) error {
		_, delegates, err := w.pods(ctx, w.c2)
		for _, pod := range delegates {
			delegate = &pod
		}
		if err == nil && (len(delegates) != 1 || !is(delegate)) {
			err = errors.New("it is not there")
		}
		return err
	})
	return delegate
}
