package scheduling

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// scheduledThere is the status of a PodChaperon whose delegate has a node.
var scheduledThere = schedulingtest.With(corev1.PodScheduled, corev1.ConditionTrue, "", "")

// follow has the world's pods followed.
func (w *world) follow(follower *followed) {
	w.follower = follower
	w.placer = placement.New(placement.Options{
		Source: translate.Source{ClusterID: "source"}, Timeout: time.Minute, Clock: w.clock,
		Ensure: follower.Ensure, Sign: func(proof.Claim) (string, error) { return "signed", nil },
	})
}

// answering returns what an API server does that answers each creation with an error.
func answering(err error) interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return err },
	}
}

func TestWhatBindSaysOfAnAttempt(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "podchaperons"}, "p", errors.New("a policy"))
	for name, test := range map[string]struct {
		answer  error
		follows followed
		happens func(w *world, c1 *target)
		binding error
		want    fwk.Code
		says    string
	}{
		"the target has scheduled the delegate": {
			happens: func(w *world, c1 *target) {
				w.placer.Delegates.Seen(c1.Target, newChaperon("c", "p", scheduledThere))
			},
			want: fwk.Success,
		},
		"the source does not take the binding": {
			happens: func(w *world, c1 *target) {
				w.placer.Delegates.Seen(c1.Target, newChaperon("c", "p", scheduledThere))
			},
			binding: errors.New("no"), want: fwk.Error, says: "no",
		},
		"the target is disengaged": {
			happens: func(w *world, c1 *target) { w.targets.remove(c1) }, want: fwk.Error,
			says: `the target of node "admiralty-c1" is not connected any more`,
		},
		"the target refuses the pod": {answer: forbidden, want: fwk.Unschedulable, says: "a policy"},
		"the source lacks what the pod needs": {
			follows: followed{ensured: &needs.MissingError{
				Namespace: "default", Refs: []needs.Ref{{Resource: needs.Secrets, Name: "s"}},
			}},
			want: fwk.Unschedulable, says: `Secret "s"`,
		},
		"the target is busy": {
			answer: apierrors.NewTooManyRequests("busy", 1), want: fwk.Error, says: "busy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := newWorld(), newPod("p", list("cpu", "1"))
			w.follow(&test.follows)
			binder := &playedBinder{err: test.binding}
			w.binder = binder
			c1 := w.engage(t, "c1", answering(test.answer))
			if test.happens != nil {
				test.happens(w, c1)
			}
			state := framework.NewCycleState()
			state.Write(Name, &cycle{Memory: attempts.Memory{Demand: w.demandOf(t, pod)}})
			status := w.Bind(t.Context(), state, pod, c1.NodeName)
			if status.Code() != test.want || !strings.Contains(status.Message(), test.says) {
				t.Errorf("status is %v (%s), want %v and %q", status.Code(), status.Message(), test.want, test.says)
			}
			if sent := len(binder.nodes) == 1; sent != (test.want == fwk.Success || test.binding != nil) {
				t.Errorf("it is bound to %v", binder.nodes)
			}
			explained, _ := w.explanations.Get(client.ObjectKeyFromObject(pod))
			if bound := explained.Node == c1.NodeName; bound != (test.want == fwk.Success) {
				t.Errorf("explained as bound to %q", explained.Node)
			}
		})
	}
}

func TestAPodOfWhichNothingIsKnownIsNotBound(t *testing.T) {
	w, pod, state := newWorld(), newPod("p", nil), framework.NewCycleState()
	node := newNode(w.engage(t, "c1", interceptor.Funcs{}).NodeName, resources("8", "64Gi"))
	ctx, name := t.Context(), node.Node().Name
	for call, status := range map[string]*fwk.Status{
		"Bind":            w.Bind(ctx, state, pod, name),
		"Filter":          w.Filter(ctx, state, pod, node),
		"PreScore":        w.PreScore(ctx, state, pod, nil),
		"Reserve":         w.Reserve(ctx, state, pod, name),
		"NormalizeScore":  w.NormalizeScore(ctx, state, pod, fwk.NodeScoreList{{}}),
		"PreScore, turns": turns{}.PreScore(ctx, state, pod, nil),
	} {
		if status.Code() != fwk.Error || !strings.Contains(status.Message(), "the state of the scheduling cycle") {
			t.Errorf("%s says %v", call, status)
		}
	}
	if _, status := w.Score(ctx, state, pod, node); status.Code() != fwk.Error {
		t.Errorf("Score says %v", status)
	}
	if _, status := (turns{}).Score(ctx, state, pod, node); status.Code() != fwk.Error {
		t.Errorf("Score of turns says %v", status)
	}
}

// recordingHandle has a clientset, and a recorder of events.
type recordingHandle struct {
	bindingHandle

	recorder *events.FakeRecorder
}

func (h recordingHandle) EventRecorder() events.EventRecorderLogger { return h.recorder }

// TestWhenFencingDoesNotHoldAnEventSaysSo binds a pod that asks to be fenced after 60 s.
func TestWhenFencingDoesNotHoldAnEventSaysSo(t *testing.T) {
	confirms := func(context.Context) error { return nil }
	for name, test := range map[string]struct {
		tolerates int64 // seconds
		lease     bool
		refused   bool
		want      string // event
		binding   bool   // by our own request
		code      fwk.Code
	}{
		"it holds":                    {tolerates: 3600, lease: true, binding: true},
		"the pod is replaced earlier": {tolerates: 30, lease: true, want: "c1: this pod may run twice", binding: true},
		"the target cannot fence":     {tolerates: 3600, want: "c1: this pod is not fenced"},
		"the source refuses":          {tolerates: 3600, lease: true, refused: true, binding: true, code: fwk.Error},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod, binder := newWorld(), newPod("p", nil), &playedBinder{}
			clients := fakeclients.NewClientset(pod)
			if test.refused {
				clients.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("no")
				})
			}
			handle := recordingHandle{bindingHandle{clients: clients}, events.NewFakeRecorder(1)}
			w.handle, w.binder = handle, binder
			c1 := w.engage(t, "c1", interceptor.Funcs{})
			if test.lease {
				c1.Confirms = confirms
				c1.SetFences(true)
			}
			pod.Annotations[v1alpha1.AnnotationFenceAfter] = "60"
			pod.Spec.Tolerations = []corev1.Toleration{{
				Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, TolerationSeconds: &test.tolerates,
			}, {
				Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
				TolerationSeconds: &test.tolerates,
			}}
			owner := metav1.OwnerReference{Kind: "ReplicaSet", Name: "web", Controller: new(true)}
			pod.OwnerReferences = []metav1.OwnerReference{owner}
			w.placer.Delegates.Seen(c1.Target, newChaperon("c", "p", func(c *v1alpha1.PodChaperon) {
				c.Annotations = map[string]string{v1alpha1.AnnotationFenceAfter: "60"}
			}))
			if status := w.bindTo(t.Context(), nil, pod, c1.Target); status.Code() != test.code {
				t.Errorf("status is %v", status)
			}
			said := ""
			select {
			case said = <-handle.recorder.Events:
			default:
			}
			if !strings.Contains(said, test.want) || (said == "") != (test.want == "") {
				t.Errorf("the event is %q, want %q", said, test.want)
			}
			if sent := len(handle.bindings()); (sent == 1) != test.binding || (len(binder.nodes) == 1) == test.binding {
				t.Errorf("%d bindings of our own, and %v", sent, binder.nodes)
			}
		})
	}
}

// attemptsOf returns what users are told of a pod's attempts.
func (w *world) attemptsOf(pod *corev1.Pod) []diagnosis.Attempt {
	explained, _ := w.explanations.Get(client.ObjectKeyFromObject(pod))
	return explained.Attempts
}

func TestAnAttemptThatGoesOnIsOneAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		grows  bool
		reason string
		trial  string
	}{
		"the target can add nodes":      {true, corev1.PodReasonUnschedulable, "grow"},
		"the target holds the pod back": {false, corev1.PodReasonSchedulingGated, ""},
		"both, where the first decides": {true, corev1.PodReasonSchedulingGated, "grow"},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := newWorld(), newPod("p", list("cpu", "1"))
			w.clock.Step(time.Hour)
			c1 := w.growing(t, "c1")
			if !test.grows {
				w.withPolicy(c1, nil)
			}
			for range 2 {
				done := w.waitsIn(t, pod, c1, test.reason)
				w.placer.Delegates.Invite(pod.UID)
				if err := receive(t, "the invitation", done); !invited(err) {
					t.Fatal(err)
				}
			}
			all := w.attemptsOf(pod)
			if len(all) != 1 || all[0].Trial != test.trial || all[0].Started.Unix() != 3600 || !all[0].Ended.IsZero() {
				t.Errorf("attempts: %+v, want one that lasts, with the trial %q", all, test.trial)
			}
		})
	}
}

func TestAPodThatFitsIsNoTrialWhereTheTargetCanAddNodes(t *testing.T) {
	w, pod := newWorld(), newPod("p", list("cpu", "1"))
	w.follow(&followed{})
	c1 := w.engage(t, "c1", answering(apierrors.NewTooManyRequests("busy", 1)))
	w.withPolicy(c1, &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{}})
	c, err := w.newCycle(pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.attempt(t.Context(), c, pod, c1); err == nil {
		t.Fatal("the attempt succeeded")
	}
	if all := w.attemptsOf(pod); len(all) != 1 || all[0].Trial != "" {
		t.Errorf("attempts: %+v", all)
	}
}

// TestWhatAnAttemptComesTo has a pod that waits in a target behind gates, until something happens.
func TestWhatAnAttemptComesTo(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(w *world, c1 *target, pod *corev1.Pod)
		want    diagnosis.Outcome // "" if the attempt is forgotten
	}{
		"the target schedules the delegate": {func(w *world, c1 *target, pod *corev1.Pod) {
			w.placer.Delegates.Seen(c1.Target, newChaperon("c-p", pod.UID, scheduledThere))
		}, diagnosis.Bound},
		"the pod is bound": {func(w *world, _ *target, pod *corev1.Pod) {
			w.placer.Delegates.Concluded(pod.UID, placement.ProxyBound)
		}, ""},
		"the target is lost": {func(w *world, c1 *target, _ *corev1.Pod) {
			w.registry.Lose(c1.Target.Target)
			(&Scheduler{plugin: w.plugin}).Lost(c1.Target.Target)
		}, diagnosis.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := newWorld(), newPod("p", list("cpu", "1"))
			c1 := w.growing(t, "c1")
			done := w.waitsIn(t, pod, c1, corev1.PodReasonSchedulingGated)
			test.happens(w, c1, pod)
			_ = receive(t, "the end", done)
			var got diagnosis.Outcome
			if all := w.attemptsOf(pod); len(all) > 0 {
				got = all[0].Outcome
			}
			if got != test.want {
				t.Errorf("the outcome is %q, want %q", got, test.want)
			}
			memory, err := w.attempts.Of(pod)
			if err != nil {
				t.Fatal(err)
			}
			if stays := memory.Stay.NodeName != ""; stays != (test.want == diagnosis.Bound) {
				t.Errorf("the stay that is remembered: %+v", memory.Stay)
			}
		})
	}
}
