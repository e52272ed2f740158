package main

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

func podIn(name, spec, status string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"spec": spec}},
		Status:     corev1.PodStatus{Message: status},
	}
}

func toNew(wished, done bool) change {
	c := change{}
	if wished {
		c.wished = func(pod *corev1.Pod) bool { return pod.Labels["spec"] == "new" }
	}
	if done {
		c.done = func(pod *corev1.Pod) bool { return pod.Status.Message == "new" }
	}
	return c
}

func TestAChangeIsCompleteWhenEveryoneShowsIt(t *testing.T) {
	proxy := func(spec, status string) func(*trace) {
		return func(tr *trace) { tr.seeProxy(podIn("web", spec, status)) }
	}
	delegate := func(spec, status string) func(*trace) {
		return func(tr *trace) { tr.seeDelegate(podIn("web-x", spec, status)) }
	}
	plain := func(spec, status string) func(*trace) {
		return func(tr *trace) { tr.seePlain(podIn("web", spec, status)) }
	}
	for name, test := range map[string]struct {
		change change
		seen   []func(*trace)
		left   int
	}{
		"delegate and proxy show it": {
			toNew(true, true), []func(*trace){delegate("new", "old"), delegate("new", "new"), proxy("new", "new")}, 0,
		},
		"the proxy may show it first": {
			toNew(true, true), []func(*trace){proxy("new", "new"), delegate("new", "new")}, 0,
		},
		"the proxy does not show it yet": {
			toNew(true, true), []func(*trace){delegate("new", "new"), proxy("new", "old")}, 1,
		},
		"the delegate is to be so, and is not yet": {
			toNew(true, true), []func(*trace){delegate("new", "old"), proxy("new", "new")}, 1,
		},
		"labels are nothing but wished":  {toNew(true, false), []func(*trace){delegate("new", "old")}, 0},
		"the proxy's own labels are not": {toNew(true, false), []func(*trace){proxy("new", "old")}, 1},
		"a status alone": {
			toNew(false, true), []func(*trace){delegate("", "new"), proxy("", "new")}, 0,
		},
		"a plain pod is its delegate": {
			toNew(true, true), []func(*trace){plain("new", "old"), plain("new", "new")}, 0,
		},
		"a plain pod is not so yet": {toNew(true, true), []func(*trace){plain("new", "old")}, 1},
		"of another pod": {
			toNew(false, true), []func(*trace){func(tr *trace) { tr.seePlain(podIn("other", "", "new")) }}, 1,
		},
		"shown twice": {
			toNew(false, true), []func(*trace){plain("", "new"), plain("", "new")}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			web := pair{pod: "web", delegate: "web-x"}
			tr := newTrace(test.change, []pair{web})
			tr.ask(web)
			for _, see := range test.seen {
				see(tr)
			}
			if tr.left != test.left {
				t.Errorf("%d pods are left, want %d", tr.left, test.left)
			}
			expired, cancel := context.WithCancel(t.Context())
			cancel()
			if err := tr.untilWaiting(expired, 0); (err == nil) != (test.left == 0) {
				t.Errorf("untilWaiting: %v", err)
			}
		})
	}
}

func TestWhatWasSeenBeforeTheRequestDoesNotCount(t *testing.T) {
	tr := newTrace(toNew(false, true), []pair{{pod: "web"}})
	tr.seePlain(podIn("web", "", "new"))
	if tr.left != 1 {
		t.Errorf("%d pods are left, want 1", tr.left)
	}
}

func TestLatenciesOfChanges(t *testing.T) {
	at := time.Now()
	after := func(seconds int) time.Time { return at.Add(time.Duration(seconds) * time.Second) }
	for name, test := range map[string]struct {
		change change
		kind   string
		p50    float64
		steps  []report.Step
	}{
		"of a status: from the delegate to the proxy":    {toNew(false, true), report.Elected, 4, nil},
		"of labels: from the request to the delegate":    {toNew(true, false), report.Elected, 1, nil},
		"of a plain pod: from the request to the status": {toNew(true, true), report.Plain, 7, nil},
		"of a spec: from the request to the proxy": {toNew(true, true), report.Elected, 7, []report.Step{
			{Name: report.StepReached, P50Seconds: 1, P99Seconds: 1},
			{Name: report.StepDone, P50Seconds: 2, P99Seconds: 2},
			{Name: report.StepShown, P50Seconds: 4, P99Seconds: 4},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrace(test.change, []pair{{pod: "web"}})
			*tr.bySource["web"] = moments{sent: at, reached: after(1), done: after(3), shown: after(7)}
			tr.first, tr.last = at, after(7)
			r := report.Result{Kind: test.kind}
			tr.summarize(&r)
			if r.P50Seconds != test.p50 || r.P99Seconds != test.p50 || r.CompleteSeconds != 7 {
				t.Errorf("p50 %v s, p99 %v s, complete after %v s", r.P50Seconds, r.P99Seconds, r.CompleteSeconds)
			}
			if diff := cmp.Diff(test.steps, r.Steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhenAPodIsChangedInPlace(t *testing.T) {
	b := &bench{}
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := newPod(load{real: true}, 0)
		p.Generation, p.Status.ObservedGeneration = 2, 2
		p.Spec.Containers[0].Image = realImage(1)
		requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("11m")}
		p.Spec.Containers[0].Resources.Requests = requests
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			RestartCount: 1, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			Resources: &corev1.ResourceRequirements{Requests: requests.DeepCopy()},
		}}
		change(p)
		return p
	}
	status := func(change func(*corev1.ContainerStatus)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Status.ContainerStatuses[0]) }
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		imaged bool
		sized  bool
	}{
		"as wished":                    {func(*corev1.Pod) {}, true, true},
		"the kubelet has not seen it":  {func(p *corev1.Pod) { p.Generation = 3 }, false, false},
		"the container still runs":     {status(func(s *corev1.ContainerStatus) { s.RestartCount = 0 }), false, true},
		"the container is not ready":   {status(func(s *corev1.ContainerStatus) { s.Ready = false }), false, true},
		"resources that are not known": {status(func(s *corev1.ContainerStatus) { s.Resources = nil }), true, false},
		"no status":                    {func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := b.reimage(0, 0).done(pod(test.change)); got != test.imaged {
				t.Errorf("the image is changed: %t", got)
			}
			if got := b.resize(0, 0).done(pod(test.change)); got != test.sized {
				t.Errorf("the pod is resized: %t", got)
			}
		})
	}
	if same := pod(func(*corev1.Pod) {}); !b.reimage(0, 0).wished(same) || !b.resize(0, 0).wished(same) ||
		b.reimage(1, 0).wished(same) || b.resize(1, 0).wished(same) {
		t.Error("the spec of the first round is taken for that of the second, or not for that of the first")
	}
}

func TestLabelsAndConditionsOfEachRoundDiffer(t *testing.T) {
	b := &bench{}
	delegate := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{roundInTarget: "1"}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
	if !b.relabel(0, 1).wished(delegate) || b.relabel(0, 2).wished(delegate) {
		t.Error("the label of another round counts, or that of this round does not")
	}
	if !b.flip(0, 1).done(delegate) || b.flip(0, 2).done(delegate) {
		t.Error("the condition of another round counts, or that of this round does not")
	}
}
