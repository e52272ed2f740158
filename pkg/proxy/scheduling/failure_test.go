package scheduling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	fakeclients "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
)

func TestMessagesNameTargetsAndWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		reasons map[string]*fwk.Status
		next    attempts.Trial
		want    string
	}{
		"each target has its own reason": {
			map[string]*fwk.Status{
				"admiralty-c0": fwk.NewStatus(
					fwk.Unschedulable, "no node has 4 free CPUs (largest: 1.5)").WithPlugin(Name),
				"admiralty-c1": fwk.NewStatus(
					fwk.Unschedulable, "node(s) were unschedulable").WithPlugin(names.NodeUnschedulable),
			}, attempts.Trial{},
			"0/6 clusters are available: c0: no node has 4 free CPUs (largest: 1.5); c1: cordoned.",
		},
		"many targets have the same reason": {
			alike(5, "not reachable"), attempts.Trial{},
			"0/6 clusters are available: c0, c1, c2 and 2 more: not reachable.",
		},
		"one target is tried": {
			alike(1, "no node has 4 free CPUs (largest: 1.5)"),
			attempts.Trial{NodeName: "admiralty-c0", Prospect: attempts.Grow},
			"0/6 clusters are available: c0: no node has 4 free CPUs (largest: 1.5). Trying c0, which can add nodes.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			statuses := framework.NewDefaultNodeToStatus()
			for nodeName, status := range test.reasons {
				statuses.Set(nodeName, status)
				w.engage(t, strings.TrimPrefix(nodeName, "admiralty-"), interceptor.Funcs{})
			}
			pod := newPod("p", nil)
			if test.next.Exists() {
				w.try(t, pod, test.next)
			}
			unfit := &framework.FitError{NumAllNodes: 6, Diagnosis: framework.Diagnosis{NodeToStatus: statuses}}
			next := w.attempts.TakeNext(pod.UID)
			if got := (&Scheduler{plugin: w.plugin}).report(pod, unfit, next); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			explained, ok := w.explanations.Get(client.ObjectKeyFromObject(pod))
			if !ok || explained.Message != test.want || len(explained.Targets) != len(test.reasons) ||
				explained.Targets[0].Trial != test.next.Prospect.String() {
				t.Errorf("explained: %+v", explained)
			}
		})
	}
}

func TestAMessageSaysWhichTaintThePodDoesNotTolerate(t *testing.T) {
	tolerated := corev1.Taint{Key: "mine", Effect: corev1.TaintEffectNoSchedule}
	preferred := corev1.Taint{Key: "preferred", Effect: corev1.TaintEffectPreferNoSchedule}
	for name, test := range map[string]struct{ key, want string }{
		"silence":        {v1alpha1.TaintSilent, "its manager is silent"},
		"bad answers":    {v1alpha1.TaintUnresponsive, "its API server does not answer well"},
		"somebody's own": {"theirs", "its virtual node has the taint theirs, which the pod does not tolerate"},
		"gone meanwhile": {"", "its virtual node has a taint that the pod does not tolerate"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, pod := w.engage(t, "c1", interceptor.Funcs{}), newPod("p", nil)
			pod.Spec.Tolerations = []corev1.Toleration{{Key: tolerated.Key, Operator: corev1.TolerationOpExists}}
			node := newNode(c1.NodeName, nil)
			taint := corev1.Taint{Key: "gone", Effect: corev1.TaintEffectNoExecute}
			if test.key != "" {
				taint.Key = test.key
			}
			node.Node().Spec.Taints = []corev1.Taint{tolerated, preferred, taint}
			filter, err := tainttoleration.New(t.Context(), nil, nil, feature.Features{})
			if err != nil {
				t.Fatal(err)
			}
			status := filter.(fwk.FilterPlugin).Filter(t.Context(), framework.NewCycleState(), pod, node)
			if test.key != "" {
				w.nodes = nodes(node.Node())
			}
			statuses := framework.NewDefaultNodeToStatus()
			statuses.Set(c1.NodeName, status.WithPlugin(filter.Name()))
			unfit := &framework.FitError{NumAllNodes: 1, Diagnosis: framework.Diagnosis{NodeToStatus: statuses}}
			got := (&Scheduler{plugin: w.plugin}).report(pod, unfit, attempts.Next{})
			if want := "0/1 clusters are available: c1: " + test.want + "."; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func alike(targets int, reason string) map[string]*fwk.Status {
	statuses := map[string]*fwk.Status{}
	for i := range targets {
		statuses[fmt.Sprintf("admiralty-c%d", i)] = fwk.NewStatus(fwk.Unschedulable, reason).WithPlugin(Name)
	}
	return statuses
}

func TestTheWholeMessageIsKeptForExplain(t *testing.T) {
	w := newWorld()
	statuses := framework.NewDefaultNodeToStatus()
	for i := range 100 {
		statuses.Set(
			fmt.Sprintf("n%d", i),
			fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("no node has %d free CPUs", i)).WithPlugin(Name),
		)
	}
	unfit := &framework.FitError{NumAllNodes: 100, Diagnosis: framework.Diagnosis{NodeToStatus: statuses}}
	pod := newPod("p", nil)
	got := (&Scheduler{plugin: w.plugin}).report(pod, unfit, attempts.Next{})
	if len(got) > 1024 || !strings.HasSuffix(got, "; and more: see kubectl multicluster explain pod.") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if explained, _ := w.explanations.Get(
		client.ObjectKeyFromObject(pod),
	); len(explained.Targets) != 100 ||
		len(explained.Message) < 2048 {
		t.Errorf("explained: %d targets, %d bytes", len(explained.Targets), len(explained.Message))
	}
}

func TestMessagesAboutThePodSayWhoseWordTheyAre(t *testing.T) {
	for plugin, want := range map[string]string{
		Name:               "pod affinity terms conflict",
		names.NodeAffinity: "kube-scheduler says: pod affinity terms conflict",
	} {
		unfit := &framework.FitError{Diagnosis: framework.Diagnosis{PreFilterMsg: "pod affinity terms conflict"}}
		unfit.Diagnosis.AddPluginStatus(fwk.NewStatus(fwk.Unschedulable).WithPlugin(plugin))
		scheduler := &Scheduler{plugin: newWorld().plugin}
		if got := scheduler.report(newPod("p", nil), unfit, attempts.Next{}); got != want {
			t.Errorf("of plugin %s: got %q, want %q", plugin, got, want)
		}
	}
}

// handled is a framework, and a failure handler, of which only what we need is there.
type handled struct {
	framework.Framework

	factory informers.SharedInformerFactory
	said    []string
}

func (h *handled) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

func (h *handled) EventRecorder() events.EventRecorderLogger { return quiet{} }

//nolint:revive // the type has so many parameters
func (h *handled) handle(
	_ context.Context,
	f framework.Framework,
	pod *framework.QueuedPodInfo,
	_ *fwk.Status,
	_ *fwk.NominatingInfo,
	_ time.Time,
) {
	said, _ := f.(messageFramework)
	h.said = append(h.said, said.message)
	f.EventRecorder().WithLogger(klog.Background()).Eventf(pod.Pod, nil, "", "", "", "")
	_, _ = f.APICacher().PatchPodStatus(
		pod.Pod,
		[]*corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}},
		nil,
	)
}

type quiet struct{ events.EventRecorderLogger }

func (q quiet) WithLogger(klog.Logger) events.EventRecorderLogger { return q }

func (quiet) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func TestWhatFollowsAFailure(t *testing.T) {
	unfit := &framework.FitError{
		NumAllNodes: 1,
		Diagnosis:   framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()},
	}
	unfit.Diagnosis.NodeToStatus.Set("c1", fwk.NewStatus(fwk.Unschedulable, "full").WithPlugin(Name))
	growing := attempts.Trial{NodeName: "c1", Prospect: attempts.Grow}
	leftover := &placement.LeftoverError{}
	for name, test := range map[string]struct {
		happens func(w *world, pod *corev1.Pod)
		err     error
		want    string
		// written says that the condition is.
		written bool
		// explained says that explain knows the message, too.
		explained bool
	}{
		"no target": {func(*world, *corev1.Pod) {}, unfit, "0/1 clusters are available: c1: full.", true, true},
		"a trial": {
			func(w *world, pod *corev1.Pod) { w.try(t, pod, growing) }, unfit,
			"0/1 clusters are available: c1: full. Trying c1, which can add nodes.", true, true,
		},
		"a trial that did not come": {
			func(w *world, pod *corev1.Pod) {
				w.try(t, pod, growing)
				w.attempts.Try(pod.UID, attempts.Trial{}, nil)
			}, unfit, "", false, false,
		},
		"no virtual node": {
			func(*world, *corev1.Pod) {}, kubescheduler.ErrNoNodesAvailable, diagnosis.NoTargets, true, true,
		},
		"a refusal": {
			func(*world, *corev1.Pod) {}, &placement.RefusedError{Target: "c1", Reason: "quota"}, "c1: quota", true,
			false,
		},
		"an invitation": {func(*world, *corev1.Pod) {}, &placement.InvitedError{Target: "c1"}, "", false, false},
		"an earlier delegate": {
			func(*world, *corev1.Pod) {}, leftover, leftover.Error(), true, true,
		},
		"an invitation, and a claim that stays": {
			func(*world, *corev1.Pod) {},
			fmt.Errorf("running Reserve: %w", &keptError{
				InvitedError: placement.InvitedError{Target: "c1"}, why: errors.New("claim \"data\": it is used"),
			}),
			"the pod waits in c1, and another target may have room, but claim \"data\": it is used", true, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			pod := newPod("p", nil)
			test.happens(w, pod)
			clients := fakeclients.NewClientset(pod)
			h := &handled{factory: informers.NewSharedInformerFactory(clients, 0)}
			if err := h.factory.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
				t.Fatal(err)
			}
			s := &Scheduler{clientset: clients, plugin: w.plugin}
			info, err := framework.NewPodInfo(pod)
			if err != nil {
				t.Fatal(err)
			}
			status := fwk.NewStatus(fwk.Unschedulable).WithError(test.err)
			handle := s.handleFailure(h.handle, nil)
			handle(t.Context(), h, &framework.QueuedPodInfo{PodInfo: info}, status, nil, time.Time{})
			if diff := cmp.Diff([]string{test.want}, h.said); diff != "" {
				t.Error(diff)
			}
			after, err := clients.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if written := len(after.Status.Conditions) == 1 &&
				after.Status.Conditions[0].Message == test.want; written != test.written {
				t.Errorf("conditions: %v", after.Status.Conditions)
			}
			known, _ := w.explanations.Get(client.ObjectKeyFromObject(pod))
			if explained := known.Message != "" && known.Message == test.want; explained != test.explained {
				t.Errorf("explained: %q", known.Message)
			}
		})
	}
}

func TestAPodThatIsConcludedWhileItFailsIsForgotten(t *testing.T) {
	bound, deleted := newPod("p", nil), newPod("p", nil)
	bound.Spec.NodeName = "admiralty-c1"
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, cached := range map[string]*corev1.Pod{
		"the pod is gone": nil, "another pod has the pod's name": newPod("q", nil), "the pod is bound": bound,
		"the pod is being deleted": deleted,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			clients := fakeclients.NewClientset()
			h := &handled{factory: informers.NewSharedInformerFactory(clients, 0)}
			if cached != nil {
				if err := h.factory.Core().V1().Pods().Informer().GetIndexer().Add(cached); err != nil {
					t.Fatal(err)
				}
			}
			pod := newPod("p", nil)
			w.try(t, pod, attempts.Trial{NodeName: "c1", Prospect: attempts.Grow})
			w.disturb(pod, "c1")
			info, err := framework.NewPodInfo(pod)
			if err != nil {
				t.Fatal(err)
			}
			s := &Scheduler{clientset: clients, plugin: w.plugin}
			status := fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{})
			handle := s.handleFailure(h.handle, nil)
			handle(t.Context(), h, &framework.QueuedPodInfo{PodInfo: info}, status, nil, time.Time{})
			memory, err := w.attempts.Of(pod)
			if err != nil || memory.Disturbed != "" || memory.Trial.Exists() {
				t.Errorf("it is remembered: %+v, error %v", memory, err)
			}
		})
	}
}

func TestAPodWhoseDelegateHasANodeIsBoundWhateverTheFiltersSay(t *testing.T) {
	scheduled := func(c *v1alpha1.PodChaperon) {
		c.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	}
	unfit := fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{
		NumAllNodes: 1, Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()},
	})
	for name, test := range map[string]struct {
		change  func(*v1alpha1.PodChaperon)
		failed  *fwk.Status
		happens func(w *world, c1 *target)
		err     error
		bound   bool
		done    bool
	}{
		"it has a node":  {change: scheduled, failed: unfit, bound: true, done: true},
		"it has no node": {change: func(*v1alpha1.PodChaperon) {}, failed: unfit},
		"it is ending": {change: func(c *v1alpha1.PodChaperon) {
			scheduled(c)
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationDeletionGracePeriod, "")
		}, failed: unfit},
		"its target is lost": {
			change: scheduled, failed: unfit,
			happens: func(w *world, c1 *target) { w.registry.Lose(c1.Target.Target) },
		},
		"its namespace is not enabled any more": {
			change: scheduled, failed: unfit, happens: func(w *world, _ *target) { w.namespaces = namespaces("x") },
		},
		"binding fails":         {change: scheduled, failed: unfit, err: errors.New("no"), bound: true},
		"an attempt has failed": {change: scheduled, failed: fwk.AsStatus(errors.New("it was not reachable"))},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod, binder, pods := newWorld(), newPod("p", nil), &playedBinder{err: test.err}, &playedQueue{}
			w.binder = binder
			c1 := w.engage(t, "c1", interceptor.Funcs{})
			w.placer.Delegates.Seen(c1.Target, newChaperon("c", "p", test.change))
			if test.happens != nil {
				test.happens(w, c1)
			}
			clients := fakeclients.NewClientset(pod)
			h := &handled{factory: informers.NewSharedInformerFactory(clients, 0)}
			info, err := framework.NewPodInfo(pod)
			if err != nil {
				t.Fatal(err)
			}
			handle := (&Scheduler{clientset: clients, plugin: w.plugin}).handleFailure(h.handle, pods)
			handle(t.Context(), h, &framework.QueuedPodInfo{PodInfo: info}, test.failed, nil, time.Time{})
			if bound := len(binder.nodes) == 1 && binder.nodes[0] == c1.NodeName; bound != test.bound {
				t.Errorf("bound to %v, want %t", binder.nodes, test.bound)
			}
			if done := len(pods.done) == 1; done != test.done || done == (len(h.said) == 1) {
				t.Errorf("done with %v, and said %q", pods.done, h.said)
			}
			if test.err != nil && !strings.Contains(h.said[0], "binding the pod to the target that runs it") {
				t.Errorf("said %q", h.said)
			}
		})
	}
}
