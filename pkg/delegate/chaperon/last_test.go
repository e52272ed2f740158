package chaperon

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// TestOnlyDelegatesAreRemembered has pods that everybody who may create pods can create and delete, again and again.
func TestOnlyDelegatesAreRemembered(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod, *metav1.OwnerReference)
		want   int
	}{
		"a delegate": {func(*corev1.Pod, *metav1.OwnerReference) {}, 1},
		"a pod with the owner of another name": {
			func(p *corev1.Pod, _ *metav1.OwnerReference) { p.Name = "another" }, 0,
		},
		"a pod with an owner of another group": {
			func(_ *corev1.Pod, o *metav1.OwnerReference) { o.APIVersion = "example.com/v1" }, 0,
		},
		"a pod with an owner of another kind": {
			func(_ *corev1.Pod, o *metav1.OwnerReference) { o.Kind = "ReplicaSet" }, 0,
		},
		"a pod without an owner": {func(p *corev1.Pod, _ *metav1.OwnerReference) { p.OwnerReferences = nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, chaperon(corev1.PodStatus{}))
			pod := delegate(corev1.PodStatus{})
			test.change(pod, &pod.OwnerReferences[0])
			s.deleted(t, pod)
			if got := len(s.reconciler.lasts.byKey); got != test.want {
				t.Errorf("%d pods are remembered, want %d", got, test.want)
			}
		})
	}
}

func TestADelegateWithoutPodChaperonIsForgotten(t *testing.T) {
	s := newStage(t)
	pod := delegate(corev1.PodStatus{})
	s.deleted(t, pod)
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.OwnerReferences[0].Name}
	if _, err := s.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if got := len(s.reconciler.lasts.byKey); got > 0 {
		t.Errorf("%d pods are remembered", got)
	}
}

func TestThePodOfAnotherPodChaperonOfTheNameIsDropped(t *testing.T) {
	s := newStage(t, chaperon(corev1.PodStatus{}))
	pod := delegate(corev1.PodStatus{})
	pod.OwnerReferences[0].UID = "of another"
	s.deleted(t, pod)
	if got, awaited := s.reconciler.lasts.of(s.chaperon(), true); got != nil || awaited {
		t.Errorf("pod %v, awaited %v", got, awaited)
	}
	if kept := s.reconciler.lasts.byKey[client.ObjectKeyFromObject(pod)]; kept.pod != nil {
		t.Error("the pod is kept in memory")
	}
	if _, awaited := s.reconciler.lasts.of(s.chaperon(), true); awaited {
		t.Error("an event is awaited that has come")
	}
}

// TestTheEndOfADelegateIsNotForgottenByWhoReadItBefore has a delegate that goes while a reconciliation, which has read
// it, goes on.
func TestTheEndOfADelegateIsNotForgottenByWhoReadItBefore(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	s := newStage(t, chaperon(running, grace("")), delegate(running))
	s.deleted(t, delegate(running))
	s.mustReconcile()
	s.expectNoDelegate()
	s.mustReconcile()
	err := s.client.Get(t.Context(), client.ObjectKeyFromObject(chaperon(running)), &v1alpha1.PodChaperon{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the PodChaperon waits for an event that has come: %v", err)
	}
}

// TestTheEndOfAWithdrawnDelegateIsAwaited has a delegate that may have got a node, and finished, just before it went.
func TestTheEndOfAWithdrawnDelegateIsAwaited(t *testing.T) {
	pending, finished := corev1.PodStatus{Phase: corev1.PodPending}, corev1.PodStatus{Phase: corev1.PodSucceeded}
	s := newStage(t, chaperon(corev1.PodStatus{}, withdrawn), delegate(pending))
	s.reconciler.lasts.watch()
	s.mustReconcile()
	s.expectNoDelegate()
	s.mustReconcile()
	if s.chaperon().Status.Phase != "" {
		t.Errorf("status %v", s.chaperon().Status)
	}
	s.deleted(t, delegate(finished))
	s.mustReconcile()
	if got := s.chaperon().Status.Phase; got != corev1.PodSucceeded {
		t.Errorf("the delegate's last phase is %q", got)
	}
}

// TestTheEndOfAWithdrawalIsForgottenWhenTheDelegateHasANode has another delegate, made after a loss, which the cache
// does not show yet when its end is asked for.
func TestTheEndOfAWithdrawalIsForgottenWhenTheDelegateHasANode(t *testing.T) {
	first := delegate(corev1.PodStatus{Phase: corev1.PodRunning}, onNode)
	s := newStage(t, chaperon(corev1.PodStatus{}, withdrawn), first)
	s.mustReconcile()
	annotate := func(annotations map[string]string) {
		c := s.chaperon()
		c.Annotations = annotations
		if err := s.client.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	annotate(nil) // as feedback does when the proxy is bound
	if err := s.client.Delete(t.Context(), first, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.deleted(t, first)
	for range 3 {
		s.mustReconcile()
	}
	s.reconciler.clock = clocktesting.NewFakePassiveClock(s.reconciler.clock.Now().Add(remakeAfter))
	s.mustReconcile()
	s.delegate() // It is made again.
	s.hidePods = true
	annotate(map[string]string{v1alpha1.AnnotationDeletionGracePeriod: ""})
	s.mustReconcile()
	s.chaperon() // It is there as long as its delegate is.
}

// deleted plays the watch that shows the end of a pod.
func (s *stage) deleted(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	s.reconciler.lasts.watch()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	delegateEvents{handler.Funcs{}, s.reconciler.lasts.note}.Delete(t.Context(), event.DeleteEvent{Object: pod}, q)
}
