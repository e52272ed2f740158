package feedback

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// force deletes at once, without a kubelet's confirmation.
const force = client.GracePeriodSeconds(0)

func TestAProxyShowsItsDelegateWithOneWritePerChange(t *testing.T) {
	c2 := engaged(t)
	proxy := createProxy(t, c2, "web")
	c := place(t, proxy, c2)
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	report(t, c, corev1.PodRunning, ready)
	waitForPhase(t, proxy, corev1.PodRunning)
	env.ChangeStatus(t, target, c, func(c *v1alpha1.PodChaperon) {
		c.Status.PodIP, c.Status.PodIPs = "10.2.0.7", []corev1.PodIP{{IP: "10.2.0.7"}}
	})
	env.WaitFor(t, source, proxy, func(pod *corev1.Pod) error {
		if pod.Status.PodIP != "10.2.0.7" {
			return fmt.Errorf("address %q", pod.Status.PodIP)
		}
		return nil
	})
	report(t, c, corev1.PodSucceeded)
	waitForPhase(t, proxy, corev1.PodSucceeded)
	report(t, c, corev1.PodRunning)
	waitForWorkers(t, c2)
	waitForPhase(t, proxy, corev1.PodSucceeded)
	if status, others := writesOf(proxy); status != 3 || others != 0 {
		t.Errorf("%d writes of the status and %d others, want 3 and 0", status, others)
	}
}

func TestDeletionWaitsForTheDelegate(t *testing.T) {
	c2 := engaged(t)
	proxy, c := run(t, c2, "web")
	env.Delete(t, source, proxy)
	waitForEnding(t, c, "")
	report(t, c, corev1.PodFailed)
	waitForPhase(t, proxy, corev1.PodFailed)
	end(t, c)
	env.WaitGone(t, source, proxy)
	if status, others := writesOf(proxy); status != 2 || others != 1 {
		t.Errorf("%d writes of the status and %d others, want 2 and 1", status, others)
	}
}

func TestTheTargetIsAskedForAnotherGracePeriod(t *testing.T) {
	c2 := engaged(t)
	proxy := createProxy(t, c2, "web")
	c := place(t, proxy, c2)
	env.Delete(t, source, proxy, client.GracePeriodSeconds(7))
	waitForEnding(t, c, "7")
	env.Delete(t, source, proxy, client.GracePeriodSeconds(3))
	waitForEnding(t, c, "3")
	end(t, c)
	env.WaitGone(t, source, proxy)
}

func TestADelegateThatTheTargetsManagerDoesNotEndIsCollected(t *testing.T) {
	c2 := engaged(t)
	proxy, c := run(t, c2, "web")
	orphaned, orphan := run(t, c2, "orphaned")
	unbound := createProxy(t, c2, "unbound")
	withdrawn := createChaperon(t, unbound, c2)
	c2.SetSpares(true)
	env.Must(t, ending.Withdraw(t.Context(), c2.Target, env.Get(t, target, withdrawn))) // as placement does
	env.Delete(t, source, proxy)
	env.Delete(t, source, orphaned, force)
	waitForEnding(t, c, "")
	waitForEnding(t, orphan, "1")
	waitForWorkers(t, c2)
	clock.SetTime(clock.Now().Add(time.Minute))
	report(t, c, corev1.PodRunning) // The workers look again.
	report(t, orphan, corev1.PodRunning)
	report(t, withdrawn, corev1.PodPending) // It has no node: one that runs would stay.
	for _, c := range []*v1alpha1.PodChaperon{c, orphan, withdrawn} {
		waitForCollection(t, c)
	}
	end(t, c)
	env.WaitGone(t, source, proxy)
}

// TestAManagerThatDoesNotKnowWithdrawalsAnyMoreIsAskedForTheEnd has a target that is rolled back meanwhile.
func TestAManagerThatDoesNotKnowWithdrawalsAnyMoreIsAskedForTheEnd(t *testing.T) {
	c2 := engaged(t)
	c2.SetSpares(true)
	withdrawn := createChaperon(t, createProxy(t, c2, "unbound"), c2)
	env.Must(t, ending.Withdraw(t.Context(), c2.Target, env.Get(t, target, withdrawn)))
	waitForWorkers(t, c2)
	c2.SetSpares(false)
	clock.SetTime(clock.Now().Add(time.Minute))
	report(t, withdrawn, corev1.PodPending) // The workers look again.
	waitForEnding(t, withdrawn, "")
}

func TestAProxyThatVanishesTakesItsDelegateAlong(t *testing.T) {
	c2 := engaged(t)
	for name, grace := range map[string]string{"bound": "1", "bound-just-now": "", "unbound": ""} {
		t.Run("the proxy was "+name, func(t *testing.T) {
			proxy := createProxy(t, c2, name)
			c := createChaperon(t, proxy, c2)
			if name != "unbound" {
				env.Bind(t, source, proxy, c2.NodeName)
			}
			if name == "bound" {
				report(t, c, corev1.PodRunning)
				waitForPhase(t, proxy, corev1.PodRunning)
			}
			env.Delete(t, source, proxy, force)
			waitForEnding(t, c, grace)
		})
	}
}

func TestAProxyWithoutItsAnnotationsTakesItsDelegateAlong(t *testing.T) {
	c2 := engaged(t)
	proxy, c := run(t, c2, "web")
	env.Change(t, source, proxy, func(pod *corev1.Pod) { pod.Annotations = nil })
	env.Delete(t, source, proxy, force)
	waitForEnding(t, c, "1")
}

func TestAProxyOnANodeThatTakesNoneOfItsNamespaceCanBeDeleted(t *testing.T) {
	namespace := env.Namespace(t, nil, source, target)
	theirs := newTarget("others-than-"+namespace, "c2")
	theirs.Customize = func(e *engage.Target) { e.APIReader = forbidden{e.APIReader} }
	theirs.Engage(t, registry)
	// Feedback may delete the proxy before this test does. The finalizer keeps it until both have.
	proxy := env.Proxy(namespace, "web", func(pod *corev1.Pod) { pod.Finalizers = []string{"test/deleted-by-both"} })
	env.Create(t, source, proxy)
	env.Bind(t, source, proxy, theirs.NodeName)
	env.Delete(t, source, proxy)
	env.RemoveFinalizers(t, source, proxy)
	env.WaitGone(t, source, proxy)
}

func TestAProxyStaysWhereItsNamespaceCannotBeReadAnyMore(t *testing.T) {
	namespace := env.Namespace(t, nil, source, target)
	c2 := newTarget(namespace, "c2")
	c2.Customize = func(e *engage.Target) { e.Client = unlisted{e.Client} }
	c2.Engage(t, registry)
	proxy := createProxy(t, c2, "web")
	env.Bind(t, source, proxy, c2.NodeName)
	env.WaitForEvent(t, source, proxy, "DelegateUnclear", "give the namespace to its ClusterSource")
	env.Delete(t, source, proxy)
	if !env.Exists(t, source, proxy) {
		t.Error("the proxy is deleted, although nobody knows whether its delegate runs")
	}
}

// unlisted has no right to read the PodChaperons of any namespace.
type unlisted struct{ client.Client }

func (unlisted) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	return forbidden{}.Get(ctx, client.ObjectKey{}, nil)
}

// forbidden reads from a target where the source has no right to read.
type forbidden struct{ client.Reader }

func (forbidden) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("podchaperons").GroupResource(), "", nil)
}

func TestADelegateThatIsLostTakesItsProxyAlong(t *testing.T) {
	lost := func(t *testing.T, c *v1alpha1.PodChaperon, reason string) {
		t.Helper()
		report(t, c, corev1.PodRunning, corev1.PodCondition{
			Type: v1alpha1.ConditionDelegate, Status: corev1.ConditionFalse, Reason: reason,
		})
	}
	tests := map[string]struct {
		lose   func(*testing.T, *corev1.Pod, *v1alpha1.PodChaperon)
		reason string
	}{
		"the delegate is gone": {
			lose: func(t *testing.T, _ *corev1.Pod, c *v1alpha1.PodChaperon) {
				t.Helper()
				lost(t, c, v1alpha1.ReasonDelegateGone)
				waitForEnding(t, c, "")
				end(t, c)
			},
			reason: "the delegate pod was deleted in the target cluster",
		},
		"the delegate is being deleted": {
			lose: func(t *testing.T, _ *corev1.Pod, c *v1alpha1.PodChaperon) {
				t.Helper()
				lost(t, c, v1alpha1.ReasonDelegateTerminating)
				waitForEnding(t, c, "")
				end(t, c)
			},
			reason: "the delegate pod is being deleted in the target cluster",
		},
		"the PodChaperon is deleted by hand": {
			lose: func(t *testing.T, _ *corev1.Pod, c *v1alpha1.PodChaperon) {
				t.Helper()
				env.Delete(t, target, c)
			},
			reason: "the PodChaperon was deleted in the target cluster",
		},
		"the PodChaperon is being deleted by hand": {
			lose: func(t *testing.T, proxy *corev1.Pod, c *v1alpha1.PodChaperon) {
				t.Helper()
				env.Delete(t, target, c, client.PropagationPolicy(metav1.DeletePropagationForeground))
				env.WaitFor(t, source, proxy.DeepCopy(), func(pod *corev1.Pod) error {
					if pod.DeletionTimestamp == nil {
						return errors.New("the proxy is not being deleted")
					}
					return nil
				})
				end(t, c)
			},
			reason: "the PodChaperon is being deleted in the target cluster",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c2 := engaged(t)
			proxy, c := run(t, c2, "web")
			test.lose(t, proxy, c)
			env.WaitGone(t, source, proxy)
			waitForExplanation(t, proxy, c2, test.reason)
		})
	}
}

func TestAProxyThatSomebodysFinalizerHoldsBecomesTerminal(t *testing.T) {
	c2 := engaged(t)
	proxy, c := run(t, c2, "job", func(pod *corev1.Pod) {
		pod.Finalizers = []string{"batch.kubernetes.io/job-tracking"}
	})
	env.Delete(t, source, proxy)
	waitForEnding(t, c, "")
	end(t, c)
	waitForPhase(t, proxy, corev1.PodFailed)
	env.RemoveFinalizers(t, source, proxy)
	env.WaitGone(t, source, proxy)
}

func TestAPodOfTheSameNameIsNotMistakenForTheOneBefore(t *testing.T) {
	c2 := engaged(t)
	first, old := run(t, c2, "db-0")
	env.Delete(t, source, first, force)
	second := createProxy(t, c2, "db-0")
	c := place(t, second, c2)
	waitForEnding(t, old, "1")
	report(t, c, corev1.PodRunning)
	waitForPhase(t, second, corev1.PodRunning)
	end(t, old)
	waitForWorkers(t, c2)
	expectKept(t, c)
}

func TestOnlyTheTargetOfTheNodeKeepsADelegate(t *testing.T) {
	c2 := engaged(t)
	c3 := newTarget(c2.Key.Namespace, "c3")
	c3.Engage(t, registry)
	proxy, unbound := createProxy(t, c2, "web"), createProxy(t, c2, "unbound")
	stray, kept := createChaperon(t, proxy, c3), createChaperon(t, unbound, c3)
	env.Bind(t, source, proxy, c2.NodeName)
	waitForEnding(t, stray, "")
	waitForWorkers(t, c3)
	expectKept(t, kept) // It is the scheduler's.
}
