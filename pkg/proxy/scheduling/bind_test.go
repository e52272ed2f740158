package scheduling

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	fakeclients "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestEachErrorOfPlacingHasAnOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want diagnosis.Outcome
	}{
		"no error": {nil, diagnosis.Bound},
		"a target's scheduler finds no node": {
			&placement.RefusedError{Refusal: placement.Unschedulable}, diagnosis.Refused,
		},
		"a target's API server refuses the pod": {
			&placement.RefusedError{Refusal: placement.Forbidden}, diagnosis.Refused,
		},
		"a target does not allow PodChaperons": {
			&placement.RefusedError{Refusal: placement.RightsMissing}, diagnosis.Refused,
		},
		"a target does not decide in time": {&placement.RefusedError{Refusal: placement.Late}, diagnosis.TimedOut},
		"the delegate is scheduled elsewhere": {
			&placement.RefusedError{Refusal: placement.ScheduledElsewhere}, diagnosis.ScheduledElsewhere,
		},
		"the PodChaperon was not created": {
			&placement.RefusedError{Refusal: placement.CreateFailed}, diagnosis.CreateFailed,
		},
		"the target's API server is busy": {
			&placement.CreateError{Cause: errors.New("busy")}, diagnosis.CreateFailed,
		},
		"an earlier delegate is still ending": {
			&placement.RefusedError{Refusal: placement.StillEnding}, diagnosis.StillEnding,
		},
		"somebody else deletes the PodChaperon": {errors.New("deleted"), diagnosis.Lost},
		"a refusal is wrapped in another error": {
			fmt.Errorf("placing: %w", &placement.RefusedError{Refusal: placement.Late}), diagnosis.TimedOut,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := outcomeOf(test.err); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestARefusalIsRemembered(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want attempts.Failure
	}{
		"a target's scheduler finds no node": {
			&placement.RefusedError{Refusal: placement.Unschedulable, Reason: "full", MoreRoom: true},
			attempts.Failure{Refused: true, Reason: "full", BackOff: attempts.UntilMoreRoom, MoreRoom: true},
		},
		"a target's API server refuses the pod": {
			&placement.RefusedError{Refusal: placement.Forbidden, Reason: "a policy"},
			attempts.Failure{Refused: true, Reason: "a policy", BackOff: attempts.FixedTime},
		},
		"a target's quota has no room": {
			&placement.RefusedError{Refusal: placement.QuotaFull, Reason: "quota"},
			attempts.Failure{Refused: true, Reason: "quota", BackOff: attempts.TimeOrMoreRoomLater},
		},
		"a target does not allow PodChaperons": {
			&placement.RefusedError{Refusal: placement.RightsMissing, Reason: "forbidden"},
			attempts.Failure{Refused: true, Reason: "forbidden", BackOff: attempts.ShortTime},
		},
		"a target does not decide in time": {
			&placement.RefusedError{Refusal: placement.Late, Reason: "slow"},
			attempts.Failure{Refused: true, Reason: "slow", BackOff: attempts.TimeOrMoreRoom},
		},
		"the target's API server is busy": {&placement.CreateError{Cause: errors.New("busy")}, attempts.Failure{}},
	} {
		t.Run(name, func(t *testing.T) {
			c1 := newWorld().engage(t, "c1", interceptor.Funcs{})
			test.want.NodeName, test.want.Preempts = c1.NodeName, true
			if diff := cmp.Diff(test.want, failureOf(test.err, c1, true)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnAttemptInALostTargetSaysSo(t *testing.T) {
	w := newWorld()
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	w.registry.Lose(c1.Target.Target)
	want := attempts.Failure{NodeName: c1.NodeName, Lost: true}
	if diff := cmp.Diff(want, failureOf(errors.New("it is not reachable any more"), c1, false)); diff != "" {
		t.Error(diff)
	}
}

func TestAnAttemptWithoutAnAnswerIsNotTheTargets(t *testing.T) {
	for name, err := range map[string]error{
		"the source lacks what the pod needs": &needs.MissingError{Namespace: "default"},
		"the API server is busy":              &placement.CreateError{Target: "c1", Cause: errors.New("busy")},
		"a delegate runs in another target":   &placement.LeftoverError{Target: "c2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1 := w.engage(t, "c1", interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					return apierrors.NewTooManyRequests("busy", 1)
				},
			})
			follower := &followed{}
			var want []string
			if errors.As(err, new(*needs.MissingError)) {
				follower.ensured = err
			} else {
				want = []string{"CreateFailed"}
			}
			w.placer = placement.New(placement.Options{
				Source: translate.Source{ClusterID: "source"}, Timeout: time.Minute, Clock: w.clock,
				Ensure: follower.Ensure, Sign: func(proof.Claim) (string, error) { return "signed", nil },
			})
			if errors.As(err, new(*placement.LeftoverError)) {
				c2 := w.engage(t, "c2", interceptor.Funcs{})
				c2.Since = w.clock.Now()
				c2.FindsPod = func(context.Context, types.NamespacedName) (bool, error) { return true, nil }
				want = nil
			}
			pod := newPod("p", nil)
			if got := w.attempt(t.Context(), &cycle{}, pod, c1); got == nil {
				t.Fatal("the attempt succeeded")
			}
			explained, _ := w.explanations.Get(client.ObjectKeyFromObject(pod))
			var outcomes []string
			for _, a := range explained.Attempts {
				outcomes = append(outcomes, string(a.Outcome))
			}
			if diff := cmp.Diff(want, outcomes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestClaimsOfARefusedPodAreGivenUp has a target that answers the creation of the PodChaperon, or lacks what it needs.
func TestClaimsOfARefusedPodAreGivenUp(t *testing.T) {
	forbidden := apierrors.NewForbidden(
		schema.GroupResource{Resource: "podchaperons"}, "p", errors.New("exceeded quota: none"),
	)
	inC1 := []string{"web in admiralty-c1"}
	for name, test := range map[string]struct {
		answer, ensured error
		claims          bool
		want            []string
	}{
		"a target that refuses the pod":             {forbidden, nil, true, inC1},
		"a target that refuses one of its claims":   {nil, &needs.RefusedError{}, true, inC1},
		"a pod without claims":                      {forbidden, nil, false, nil},
		"a target that is busy has not refused it":  {apierrors.NewTooManyRequests("busy", 1), nil, true, nil},
		"a target that lacks an answer for a claim": {nil, errors.New("slow"), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1 := w.engage(t, "c1", interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					return test.answer
				},
			})
			follower := &followed{ensured: test.ensured}
			w.follower = follower
			w.placer = placement.New(placement.Options{
				Source: translate.Source{ClusterID: "source"}, Timeout: time.Minute, Clock: w.clock,
				Ensure: follower.Ensure, Sign: func(proof.Claim) (string, error) { return "signed", nil },
			})
			if err := w.attempt(t.Context(), &cycle{claims: test.claims}, newPod("p", nil), c1); err == nil {
				t.Fatal("the attempt succeeded")
			}
			if diff := cmp.Diff(test.want, follower.refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

// bindingHandle has a clientset that notes bindings.
type bindingHandle struct {
	fwk.Handle

	clients *fakeclients.Clientset
}

func (h bindingHandle) ClientSet() kubernetes.Interface { return h.clients }

func (bindingHandle) EventRecorder() events.EventRecorderLogger { return quiet{} }

// bindings returns the bindings that were sent.
func (h bindingHandle) bindings() []*corev1.Binding {
	var sent []*corev1.Binding
	for _, action := range h.clients.Actions() {
		if created, ok := action.(clienttesting.CreateAction); ok {
			binding, _ := created.GetObject().(*corev1.Binding)
			sent = append(sent, binding)
		}
	}
	return sent
}

// Whether the target fences counts when it is lost. It may fence nothing just now, because its manager was silent.
func TestAPodThatIsBoundToTheTargetThatRunsItIsMarkedAsFenced(t *testing.T) {
	for _, fences := range []bool{true, false} {
		w, handle, c1 := newFencing(t, fences)
		pod := fencedPod()
		w.placer.Delegates.Seen(c1.Target, newChaperon("c", "p", func(c *v1alpha1.PodChaperon) {
			c.Annotations = map[string]string{v1alpha1.AnnotationFenceAfter: "60"}
			c.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
		}))
		if done, err := w.bindScheduled(t.Context(), pod); err != nil || !done {
			t.Fatalf("the target fences: %t; bound: %t, %v", fences, done, err)
		}
		sent := handle.bindings()
		if len(sent) != 1 || sent[0].Target.Name != c1.NodeName || sent[0].UID != pod.UID ||
			sent[0].Annotations[v1alpha1.AnnotationFencedAfter] != "60" {
			t.Errorf("the target fences: %t; bindings: %v", fences, sent)
		}
	}
}

func TestAFencedPodIsBoundOnceItsPodChaperonIsShown(t *testing.T) {
	w, handle, c1 := newFencing(t, true)
	status := w.bindTo(t.Context(), framework.NewCycleState(), fencedPod(), c1.Target)
	if status.IsSuccess() || len(handle.bindings()) > 0 {
		t.Errorf("status %v, bindings %v", status, handle.bindings())
	}
}

// newFencing returns a world with a target in which the source holds a Lease.
func newFencing(t *testing.T, fences bool) (*world, bindingHandle, *target) {
	t.Helper()
	w := newWorld()
	handle := bindingHandle{clients: fakeclients.NewClientset(fencedPod())}
	w.handle, w.binder = handle, &playedBinder{}
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	c1.Confirms = func(context.Context) error { return nil }
	c1.SetFences(fences)
	return w, handle, c1
}

func fencedPod() *corev1.Pod {
	pod := newPod("p", nil)
	pod.Annotations[v1alpha1.AnnotationFenceAfter] = "60"
	return pod
}
