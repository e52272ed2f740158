package delegate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

func TestDelegateIsMadeAndItsStatusReturned(t *testing.T) {
	c := create(t, namespace(t, nil))
	pod := eventualDelegate(t, c)
	if !metav1.IsControlledBy(pod, c) || pod.Labels["app"] != "web" || pod.Annotations["note"] != "kept" {
		t.Errorf("delegate %v", pod.ObjectMeta)
	}

	bind(t, pod)
	eventually(t, c, func(c *v1alpha1.PodChaperon) error {
		return hasCondition(c, corev1.PodScheduled, corev1.ConditionTrue, "")
	})

	setStatus(t, pod, func(s *corev1.PodStatus) {
		s.Phase, s.PodIP, s.HostIP = corev1.PodRunning, "10.0.0.7", "10.1.0.1"
		s.StartTime = ptr.To(metav1.Now())
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", Ready: true, Image: "web", ImageID: "id"}}
	})
	eventually(t, c, func(c *v1alpha1.PodChaperon) error {
		if err := target.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if diff := cmp.Diff(pod.Status, c.Status); diff != "" {
			return fmt.Errorf("status (-delegate +PodChaperon):\n%s", diff)
		}
		return nil
	})
}

func TestRefusedDelegates(t *testing.T) {
	for name, test := range map[string]struct {
		labels  map[string]string
		prepare func(t *testing.T, namespace string)
		change  func(*v1alpha1.PodChaperon)
		message string
	}{
		"PodSecurity": {
			labels:  map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
			message: "violates PodSecurity",
		},
		"quota": {
			prepare: func(t *testing.T, namespace string) {
				t.Helper()
				quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"}}
				quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: quantity("0")}
				must(t, target.Client.Create(t.Context(), quota))
				quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard}
				must(t, target.Client.Status().Update(t.Context(), quota))
			},
			message: "exceeded quota",
		},
		"a missing priority class": {
			change:  func(c *v1alpha1.PodChaperon) { c.Spec.PriorityClassName = "missing" },
			message: "no PriorityClass with name missing was found",
		},
		"validation": {
			change:  func(c *v1alpha1.PodChaperon) { c.Spec.Containers = nil },
			message: "spec.containers",
		},
		"another's pod of that name": {
			prepare: func(t *testing.T, namespace string) {
				t.Helper()
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-abcde"}, Spec: spec()}
				must(t, target.Client.Create(t.Context(), pod))
			},
			message: "is not the PodChaperon's",
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := namespace(t, test.labels)
			if test.prepare != nil {
				test.prepare(t, namespace)
			}
			c := create(t, namespace, func(c *v1alpha1.PodChaperon) {
				if test.change != nil {
					test.change(c)
				}
			})
			eventually(t, c, func(c *v1alpha1.PodChaperon) error {
				if err := hasCondition(c, v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateRefused); err != nil {
					return err
				}
				if message := c.Status.Conditions[0].Message; !strings.Contains(message, test.message) {
					return fmt.Errorf("message %q lacks %q", message, test.message)
				}
				return nil
			})
		})
	}
}

func TestALostDelegateIsReportedAndMadeAgainAfterTwoMinutes(t *testing.T) {
	c := create(t, namespace(t, nil))
	pod := eventualDelegate(t, c)
	runDelegate(t, c, pod)

	must(t, target.Client.Delete(t.Context(), pod))
	eventually(t, c, delegateIs(v1alpha1.ReasonDelegateTerminating))
	setStatus(t, pod, func(s *corev1.PodStatus) { s.Phase = corev1.PodFailed })
	eventually(t, c, func(c *v1alpha1.PodChaperon) error { return hasPhase(c, corev1.PodFailed) })
	confirmDeletion(t, pod)
	eventually(t, c, delegateIs(v1alpha1.ReasonDelegateGone))

	clock := clocktesting.NewFakePassiveClock(time.Now().Add(time.Minute))
	reconciler := chaperon.New(target.Client, target.Client, clock, events.NewFakeRecorder(10))
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)}
	result, err := reconciler.Reconcile(t.Context(), request)
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute+time.Second {
		t.Fatalf("a minute later: result %v, error %v", result, err)
	}
	clock.SetTime(time.Now().Add(2*time.Minute + time.Second))
	if _, err := reconciler.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	again := eventualDelegate(t, c)
	if again.UID == pod.UID {
		t.Fatal("the delegate is the old one")
	}
	eventually(t, c, func(c *v1alpha1.PodChaperon) error {
		if len(c.Status.Conditions) > 0 {
			return fmt.Errorf("conditions %v of a delegate that is no more", c.Status.Conditions)
		}
		return hasPhase(c, corev1.PodPending)
	})
	runDelegate(t, c, again)
}

func TestAFinishedDelegateIsNotMadeAgain(t *testing.T) {
	c := create(t, namespace(t, nil), func(c *v1alpha1.PodChaperon) { c.Spec.RestartPolicy = corev1.RestartPolicyNever })
	pod := eventualDelegate(t, c)
	runDelegate(t, c, pod)
	setStatus(t, pod, func(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded })
	eventually(t, c, func(c *v1alpha1.PodChaperon) error { return hasPhase(c, corev1.PodSucceeded) })
	must(t, target.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))

	reconciler := chaperon.New(target.Client, target.Client, clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour)), events.NewFakeRecorder(10))
	if _, err := reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)}); err != nil {
		t.Fatal(err)
	}
	must(t, target.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	if err := hasPhase(c, corev1.PodSucceeded); err != nil || len(c.Status.Conditions) != 1 {
		t.Errorf("%v, conditions %v", err, c.Status.Conditions)
	}
	if err := target.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		t.Errorf("getting the delegate: %v, want NotFound", err)
	}
}

func TestDeletionWithAGracePeriodOfItsOwn(t *testing.T) {
	c := create(t, namespace(t, nil))
	pod := eventualDelegate(t, c)
	runDelegate(t, c, pod)

	annotate(t, c, "7")
	eventuallyPod(t, pod, func(pod *corev1.Pod) error {
		if pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds != 7 {
			return fmt.Errorf("grace period %v, want 7", pod.DeletionGracePeriodSeconds)
		}
		return nil
	})
	annotate(t, c, "3")
	eventuallyPod(t, pod, func(pod *corev1.Pod) error {
		if *pod.DeletionGracePeriodSeconds != 3 {
			return fmt.Errorf("grace period %d, want 3", *pod.DeletionGracePeriodSeconds)
		}
		return nil
	})
	must(t, target.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	if c.DeletionTimestamp != nil || hasCondition(c, v1alpha1.ConditionDelegate, corev1.ConditionFalse, "") == nil {
		t.Errorf("while the delegate terminates: deleted %v, conditions %v", c.DeletionTimestamp, c.Status.Conditions)
	}
	confirmDeletion(t, pod)
	apiserver.Eventually(t, func(ctx context.Context) error {
		if err := target.Client.Get(ctx, client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
			return fmt.Errorf("getting the PodChaperon: %w, want NotFound", err)
		}
		return nil
	})
}
