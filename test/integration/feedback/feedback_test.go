package feedback

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

func lost(reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: v1alpha1.ConditionDelegate, Status: corev1.ConditionFalse, Reason: reason}
}

func TestAProxyShowsItsDelegateWithOneWritePerChange(t *testing.T) {
	s := newStory(t)
	s.engage(s.target)
	proxy := s.create(s.pod("web"))
	c := s.place(proxy, s.target)
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	s.report(c, corev1.PodRunning, ready)
	s.shows(proxy, corev1.PodRunning)
	before := c.DeepCopy()
	c.Status.PodIP, c.Status.PodIPs = "10.2.0.7", []corev1.PodIP{{IP: "10.2.0.7"}}
	s.must(shared.target.Client.Status().Patch(t.Context(), c, client.MergeFrom(before)))
	eventually(s, shared.source, proxy, func(pod *corev1.Pod) error {
		if pod.Status.PodIP != "10.2.0.7" {
			return fmt.Errorf("address %q", pod.Status.PodIP)
		}
		return nil
	})
	s.report(c, corev1.PodSucceeded)
	s.shows(proxy, corev1.PodSucceeded)
	s.report(c, corev1.PodRunning)
	s.settled(s.target)
	s.shows(proxy, corev1.PodSucceeded)
	if status, others := shared.writes.of(proxy); status != 3 || others != 0 {
		t.Errorf("%d writes of the status and %d others, want 3 and 0", status, others)
	}
}

func TestDeletionWaitsForTheDelegate(t *testing.T) {
	s := newStory(t)
	s.engage(s.target)
	proxy := s.create(s.pod("web"))
	c := s.place(proxy, s.target)
	s.report(c, corev1.PodRunning)
	s.shows(proxy, corev1.PodRunning)
	s.delete(shared.source, proxy)
	s.ending(c, "")
	s.report(c, corev1.PodFailed)
	s.shows(proxy, corev1.PodFailed)
	s.end(c)
	s.gone(shared.source, proxy)
	if status, others := shared.writes.of(proxy); status != 2 || others != 1 {
		t.Errorf("%d writes of the status and %d others, want 2 and 1", status, others)
	}
}

func TestAnotherGracePeriodIsAskedOfTheTarget(t *testing.T) {
	s := newStory(t)
	s.engage(s.target)
	proxy := s.create(s.pod("web"))
	c := s.place(proxy, s.target)
	s.delete(shared.source, proxy, client.GracePeriodSeconds(7))
	s.ending(c, "7")
	s.delete(shared.source, proxy, client.GracePeriodSeconds(3))
	s.ending(c, "3")
	s.end(c)
	s.gone(shared.source, proxy)
}

func TestADelegateThatTheTargetsManagerDoesNotEndIsCollected(t *testing.T) {
	s := newStory(t)
	s.engage(s.target)
	proxy, orphaned := s.create(s.pod("web")), s.create(s.pod("orphaned"))
	c, orphan := s.place(proxy, s.target), s.place(orphaned, s.target)
	s.delete(shared.source, proxy)
	s.delete(shared.source, orphaned, client.GracePeriodSeconds(0))
	s.ending(c, "")
	s.ending(orphan, "")
	s.settled(s.target)
	shared.clock.SetTime(shared.clock.Now().Add(time.Minute))
	s.report(c, corev1.PodRunning) // has the workers look again
	s.report(orphan, corev1.PodRunning)
	s.collected(c)
	s.collected(orphan)
	s.end(c)
	s.gone(shared.source, proxy)
}

func TestAProxyThatVanishesTakesItsDelegateAlong(t *testing.T) {
	s := newStory(t)
	s.engage(s.target)
	for name, bound := range map[string]bool{"bound": true, "unbound": false} {
		t.Run(name, func(t *testing.T) {
			proxy := s.create(s.pod(name))
			c := s.chaperon(proxy, s.target)
			if bound {
				s.bind(proxy, s.target.NodeName)
			}
			s.delete(shared.source, proxy, client.GracePeriodSeconds(0))
			s.ending(c, "")
		})
	}
}

func TestAProxyWithoutItsAnnotationsTakesItsDelegateAlong(t *testing.T) {
	s := newStory(t)
	s.engage(s.target)
	proxy := s.create(s.pod("web"))
	c := s.place(proxy, s.target)
	s.must(shared.source.Client.Patch(t.Context(), proxy, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))))
	s.delete(shared.source, proxy, client.GracePeriodSeconds(0))
	s.ending(c, "")
}

func TestAProxyOnANodeThatTakesNoneOfItsNamespaceCanBeDeleted(t *testing.T) {
	s := newStory(t)
	target := s.newTarget("theirs")
	target.Key.Namespace = "theirs"
	s.engage(target)
	target.APIReader = forbidden{target.APIReader}
	proxy := s.create(s.pod("web"))
	s.bind(proxy, target.NodeName)
	s.gone(shared.source, proxy)
}

// forbidden is a target where the source has no right to read.
type forbidden struct{ client.Reader }

func (forbidden) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("podchaperons").GroupResource(), "", nil)
}

func TestADelegateThatIsLostTakesItsProxyAlong(t *testing.T) {
	tests := map[string]struct {
		lose func(*story, *v1alpha1.PodChaperon)
		says string
	}{
		"the delegate is gone": {
			lose: func(s *story, c *v1alpha1.PodChaperon) {
				s.report(c, corev1.PodRunning, lost(v1alpha1.ReasonDelegateGone))
			},
			says: "the delegate pod was deleted in the target cluster",
		},
		"the delegate is being deleted": {
			lose: func(s *story, c *v1alpha1.PodChaperon) {
				s.report(c, corev1.PodRunning, lost(v1alpha1.ReasonDelegateTerminating))
				s.ending(c, "")
				s.end(c)
			},
			says: "the delegate pod is being deleted in the target cluster",
		},
		"the PodChaperon is deleted by hand": {
			lose: func(s *story, c *v1alpha1.PodChaperon) { s.delete(shared.target, c) },
			says: "the PodChaperon was deleted in the target cluster",
		},
		"the PodChaperon is being deleted by hand": {
			lose: func(s *story, c *v1alpha1.PodChaperon) {
				s.delete(shared.target, c, client.PropagationPolicy(metav1.DeletePropagationForeground))
				proxy := s.pod("web")
				eventually(s, shared.source, proxy, func(pod *corev1.Pod) error {
					if pod.DeletionTimestamp == nil {
						return errors.New("the proxy is not being deleted")
					}
					return nil
				})
				s.end(c)
			},
			says: "the PodChaperon is being deleted in the target cluster",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.engage(s.target)
			proxy := s.create(s.pod("web"))
			c := s.place(proxy, s.target)
			s.report(c, corev1.PodRunning)
			s.shows(proxy, corev1.PodRunning)
			test.lose(s, c)
			s.gone(shared.source, proxy)
			s.explained(proxy, test.says)
		})
	}
}

// explained waits for the event about a proxy that was deleted for the reason that says gives.
func (s *story) explained(proxy *corev1.Pod, says string) {
	s.Helper()
	list := &eventsv1.EventList{}
	want := "Deleting this pod because " + says + " (virtual node " + s.target.NodeName + ")"
	apiserver.Eventually(s.T, func(ctx context.Context) error {
		if err := shared.source.Client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.Regarding.UID == proxy.UID && event.Reason == feedback.ReasonDelegateLost && event.Note == want {
				return nil
			}
		}
		return fmt.Errorf("no event %q in %v", want, list.Items)
	})
}

func TestAProxyThatSomebodysFinalizerHoldsBecomesTerminal(t *testing.T) {
	s := newStory(t)
	s.engage(s.target)
	job := s.pod("job")
	job.Finalizers = []string{"batch.kubernetes.io/job-tracking"}
	proxy := s.create(job)
	c := s.place(proxy, s.target)
	s.report(c, corev1.PodRunning)
	s.shows(proxy, corev1.PodRunning)
	s.delete(shared.source, proxy)
	s.ending(c, "")
	s.end(c)
	s.shows(proxy, corev1.PodFailed)
	s.must(shared.source.Client.Patch(t.Context(), proxy, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	s.gone(shared.source, proxy)
}

func TestAPodOfTheSameNameIsNotMistakenForTheOneBefore(t *testing.T) {
	s := newStory(t)
	s.engage(s.target)
	first := s.create(s.pod("db-0"))
	old := s.place(first, s.target)
	s.report(old, corev1.PodRunning)
	s.shows(first, corev1.PodRunning)
	s.delete(shared.source, first, client.GracePeriodSeconds(0))
	second := s.create(s.pod("db-0"))
	c := s.place(second, s.target)
	s.ending(old, "")
	s.report(c, corev1.PodRunning)
	s.shows(second, corev1.PodRunning)
	s.end(old)
	s.settled(s.target)
	s.kept(c)
}

func TestOnlyTheNodesTargetKeepsADelegate(t *testing.T) {
	s := newStory(t)
	other := s.newTarget("c3")
	s.engage(s.target)
	s.engage(other)
	proxy := s.create(s.pod("web"))
	unbound := s.create(s.pod("unbound"))
	stray, kept := s.chaperon(proxy, other), s.chaperon(unbound, other)
	s.bind(proxy, s.target.NodeName)
	s.ending(stray, "")
	s.settled(other)
	s.kept(kept) // It is the scheduler's.
}
