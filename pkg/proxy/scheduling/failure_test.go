package scheduling

import (
	"context"
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
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
)

func TestMessagesNameTargetsAndWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		reasons map[string]*fwk.Status
		next    trial
		want    string
	}{
		"each for itself": {
			map[string]*fwk.Status{
				"admiralty-c0": fwk.NewStatus(fwk.Unschedulable, "no node has 4 free CPUs (largest: 1.5)").WithPlugin(Name),
				"admiralty-c1": fwk.NewStatus(fwk.Unschedulable, "node(s) were unschedulable").WithPlugin(names.NodeUnschedulable),
			}, trial{},
			"0/6 clusters are available: c0: no node has 4 free CPUs (largest: 1.5); c1: cordoned.",
		},
		"many for the same reason": {
			alike(5, "not reachable"), trial{},
			"0/6 clusters are available: c0, c1, c2 and 2 more: not reachable.",
		},
		"one is tried": {
			alike(1, "no node has 4 free CPUs (largest: 1.5)"), trial{"admiralty-c0", grow},
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
			if test.next.kind != fits {
				w.trials.start(pod.UID, test.next, map[string]candidate{test.next.nodeName: {trial: test.next}})
			}
			unfit := &framework.FitError{NumAllNodes: 6, Diagnosis: framework.Diagnosis{NodeToStatus: statuses}}
			if got := (&Scheduler{plugin: w.plugin}).report(pod, unfit, test.next); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			explained, ok := w.explanations.Get(client.ObjectKeyFromObject(pod))
			if !ok || explained.Message != test.want || len(explained.Targets) != len(test.reasons) ||
				explained.Targets[0].Trial != test.next.kind.String() {
				t.Errorf("explained: %+v", explained)
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
	got := (&Scheduler{plugin: w.plugin}).report(pod, unfit, trial{})
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
		if got := (&Scheduler{plugin: newWorld().plugin}).report(newPod("p", nil), unfit, trial{}); got != want {
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
	for name, test := range map[string]struct {
		happens func(w *world)
		err     error
		want    string
		// written says that the condition is.
		written bool
	}{
		"no target":                 {func(*world) {}, unfit, "0/1 clusters are available: c1: full.", true},
		"a trial":                   {func(w *world) { w.trials.start("p", trial{"c1", grow}, nil) }, unfit, "0/1 clusters are available: c1: full. Trying c1, which can add nodes.", true},
		"a trial that did not come": {func(w *world) { w.trials.start("p", trial{"c1", grow}, nil); w.trials.end("p") }, unfit, "", false},
		"no virtual node":           {func(*world) {}, kubescheduler.ErrNoNodesAvailable, diagnosis.NoTargets, true},
		"a refusal":                 {func(*world) {}, &refusedError{target: "c1", reason: "quota"}, "c1: quota", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			test.happens(w)
			pod := newPod("p", nil)
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
			s.handleFailure(
				h.handle,
				nil,
			)(
				t.Context(),
				h,
				&framework.QueuedPodInfo{PodInfo: info},
				fwk.NewStatus(fwk.Unschedulable).WithError(test.err),
				nil,
				time.Time{},
			)
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
		})
	}
}

func TestAPodThatIsDeletedWhileItFailsIsForgotten(t *testing.T) {
	w := newWorld()
	clients := fakeclients.NewClientset()
	h := &handled{factory: informers.NewSharedInformerFactory(clients, 0)}
	pod := newPod("p", nil)
	w.trials.start("p", trial{"c1", grow}, map[string]candidate{"c1": {}})
	w.trials.disturb("p", "c1")
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	s := &Scheduler{clientset: clients, plugin: w.plugin}
	s.handleFailure(
		h.handle,
		nil,
	)(
		t.Context(),
		h,
		&framework.QueuedPodInfo{PodInfo: info},
		fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{}),
		nil,
		time.Time{},
	)
	if n := len(w.trials.current) + len(w.trials.among) + len(w.trials.ended) + len(w.trials.disturbed); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}
