package delegate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestADelegateIsCreatedAndItsStatusReturned(t *testing.T) {
	c := create(t, newNamespace(t, nil))
	pod := waitForDelegate(t, c)
	if !metav1.IsControlledBy(pod, c) || pod.Labels["app"] != "web" || pod.Annotations["note"] != "kept" {
		t.Errorf("delegate %v", pod.ObjectMeta)
	}

	env.Bind(t, target, pod, "node")
	env.WaitFor(t, target, c, hasCondition(corev1.PodScheduled, corev1.ConditionTrue, ""))

	env.ChangeStatus(t, target, pod, func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.PodIP, pod.Status.HostIP = corev1.PodRunning, "10.0.0.7", "10.1.0.1"
		pod.Status.StartTime = ptr.To(metav1.Now())
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Ready: true, Image: "app", ImageID: "id"}}
	})
	env.WaitFor(t, target, c, func(c *v1alpha1.PodChaperon) error {
		if diff := cmp.Diff(env.Get(t, target, pod).Status, c.Status); diff != "" {
			return fmt.Errorf("status (-delegate +PodChaperon):\n%s", diff)
		}
		return nil
	})
}

func TestAChaperonReportsWhyItsDelegateIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		labels  map[string]string
		prepare func(t *testing.T, namespace string)
		change  func(*v1alpha1.PodChaperon)
		message string
	}{
		"the namespace enforces PodSecurity": {
			labels:  map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
			message: "violates PodSecurity",
		},
		"a quota is exceeded": {
			prepare: func(t *testing.T, namespace string) {
				t.Helper()
				env.ForbidAll(t, target, namespace, corev1.ResourcePods)
			},
			message: "exceeded quota",
		},
		"the priority class is missing": {
			change:  func(c *v1alpha1.PodChaperon) { c.Spec.PriorityClassName = "missing" },
			message: "no PriorityClass with name missing was found",
		},
		"the pod is invalid": {
			change:  func(c *v1alpha1.PodChaperon) { c.Spec.Containers = nil },
			message: "spec.containers",
		},
		"somebody else has a pod of that name": {
			prepare: func(t *testing.T, namespace string) {
				t.Helper()
				env.Create(t, target, &corev1.Pod{ObjectMeta: env.Meta(namespace, "web-abcde"), Spec: env.PodSpec()})
			},
			message: "is not the PodChaperon's",
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := newNamespace(t, test.labels)
			if test.prepare != nil {
				test.prepare(t, namespace)
			}
			c := create(t, namespace, func(c *v1alpha1.PodChaperon) {
				if test.change != nil {
					test.change(c)
				}
			})
			env.WaitFor(t, target, c, func(c *v1alpha1.PodChaperon) error {
				if err := delegateIs(v1alpha1.ReasonDelegateRefused)(c); err != nil {
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

func TestADelegateThatIsGoneIsReportedAndCreatedAgainAfterTwoMinutes(t *testing.T) {
	c := create(t, newNamespace(t, nil))
	pod := waitForDelegate(t, c)
	runDelegate(t, c, pod)

	env.Delete(t, target, pod)
	env.WaitFor(t, target, c, delegateIs(v1alpha1.ReasonDelegateTerminating))
	env.ChangeStatus(t, target, pod, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
	env.WaitFor(t, target, c, hasPhase(corev1.PodFailed))
	confirmDeletion(t, pod)
	env.WaitFor(t, target, c, delegateIs(v1alpha1.ReasonDelegateGone))

	if again := reconcileLater(t, c, time.Minute).RequeueAfter; again <= 0 || again > time.Minute+time.Second {
		t.Fatalf("a minute later, it is reconciled again after %s", again)
	}
	reconcileLater(t, c, 2*time.Minute+time.Second)
	again := waitForDelegate(t, c)
	if again.UID == pod.UID {
		t.Fatal("the delegate is the old one")
	}
	env.WaitFor(t, target, c, func(c *v1alpha1.PodChaperon) error {
		if len(c.Status.Conditions) > 0 {
			return fmt.Errorf("conditions %v of a delegate that is no more", c.Status.Conditions)
		}
		return hasPhase(corev1.PodPending)(c)
	})
	runDelegate(t, c, again)
}

func TestAFinishedDelegateIsNotCreatedAgain(t *testing.T) {
	c := create(t, newNamespace(t, nil), func(c *v1alpha1.PodChaperon) {
		c.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	pod := waitForDelegate(t, c)
	runDelegate(t, c, pod)
	env.ChangeStatus(t, target, pod, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
	env.WaitFor(t, target, c, hasPhase(corev1.PodSucceeded))
	env.Delete(t, target, pod, client.GracePeriodSeconds(0))

	reconcileLater(t, c, time.Hour)
	env.Get(t, target, c)
	if err := hasPhase(corev1.PodSucceeded)(c); err != nil || len(c.Status.Conditions) != 1 {
		t.Errorf("%v, conditions %v", err, c.Status.Conditions)
	}
	if env.Exists(t, target, pod) {
		t.Error("the delegate was created again")
	}
}

func TestADelegateIsDeletedWithTheGracePeriodOfItsChaperon(t *testing.T) {
	c := create(t, newNamespace(t, nil))
	pod := waitForDelegate(t, c)
	runDelegate(t, c, pod)

	for _, grace := range []string{"7", "3"} {
		env.Change(t, target, c, func(c *v1alpha1.PodChaperon) {
			c.Annotations[v1alpha1.AnnotationDeletionGracePeriod] = grace
		})
		env.WaitFor(t, target, pod, func(pod *corev1.Pod) error {
			if got := pod.DeletionGracePeriodSeconds; got == nil || fmt.Sprint(*got) != grace {
				return fmt.Errorf("grace period %v, want %s", ptr.Deref(got, -1), grace)
			}
			return nil
		})
	}
	env.Get(t, target, c)
	if c.DeletionTimestamp != nil || hasCondition(v1alpha1.ConditionDelegate, corev1.ConditionFalse, "")(c) == nil {
		t.Errorf("while the delegate terminates: deleted %v, conditions %v", c.DeletionTimestamp, c.Status.Conditions)
	}
	confirmDeletion(t, pod)
	env.WaitGone(t, target, c)
}

func TestAWithdrawnPodChaperonGetsNoDelegate(t *testing.T) {
	c := create(t, newNamespace(t, nil), func(c *v1alpha1.PodChaperon) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationDeletionGracePeriod, "")
	})
	env.WaitGone(t, target, c)
	pod := &corev1.Pod{ObjectMeta: env.Meta(c.Namespace, c.Name)}
	if env.Exists(t, target, pod) {
		t.Error("the PodChaperon got a delegate, and is gone")
	}
}

func TestAWithdrawnDelegateWithoutANodeEnds(t *testing.T) {
	c := create(t, newNamespace(t, nil))
	pod := waitForDelegate(t, c)
	env.Must(t, withdraw(t, env.Get(t, target, c)))
	env.WaitGone(t, target, pod)
	env.WaitGone(t, target, c)
}

// withdraw withdraws a PodChaperon, as placement does.
func withdraw(t *testing.T, seen *v1alpha1.PodChaperon) error {
	t.Helper()
	engaged := &engage.Target{Client: target.Client}
	engaged.SetSpares(true)
	return ending.Withdraw(t.Context(), engaged, seen)
}

// TestAStaleRequestToEndADelegateIsRefused has real preconditions: the delegate was scheduled meanwhile.
func TestAStaleRequestToEndADelegateIsRefused(t *testing.T) {
	c := create(t, newNamespace(t, nil))
	pod := waitForDelegate(t, c)
	seen := env.Get(t, target, c).DeepCopy()
	runDelegate(t, c, pod)
	if err := withdraw(t, seen); !apierrors.IsConflict(err) {
		t.Errorf("asking for the end of a PodChaperon that has changed: %v, want a conflict", err)
	}
	another := seen.DeepCopy()
	another.UID = "another"
	if err := ending.Ask(t.Context(), target.Client, another, ""); !apierrors.IsInvalid(err) {
		t.Errorf("asking for the end of another PodChaperon: %v, want that the UID is immutable", err)
	}
	env.Must(t, withdraw(t, env.Get(t, target, c)))
	env.ChangeStatus(t, target, pod, func(pod *corev1.Pod) { pod.Status.Message = "later" })
	env.WaitFor(t, target, c, func(c *v1alpha1.PodChaperon) error {
		if c.Status.Message != "later" {
			return fmt.Errorf("message %q", c.Status.Message)
		}
		return nil
	})
	if env.Get(t, target, pod).DeletionTimestamp != nil {
		t.Error("a withdrawal ends a delegate that has a node")
	}
	env.Must(t, ending.Ask(t.Context(), target.Client, env.Get(t, target, c), ""))
	env.WaitFor(t, target, pod, func(pod *corev1.Pod) error {
		if pod.DeletionTimestamp == nil {
			return errors.New("the delegate is not being deleted")
		}
		return nil
	})
	confirmDeletion(t, pod)
	env.WaitGone(t, target, c)
}
