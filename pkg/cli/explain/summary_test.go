package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
)

func TestSummaryOfPodsThatTakePart(t *testing.T) {
	waiting := func(trial, reason string) *diagnosis.Explanation {
		return &diagnosis.Explanation{UID: "1", Attempts: []diagnosis.Attempt{
			{Target: "c2", Outcome: diagnosis.Refused},
			{Target: "c3", Trial: trial, Started: exactly(12 * time.Second), Outcome: diagnosis.Waiting, Reason: reason},
		}}
	}
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		known *diagnosis.Explanation
		want  string
	}{
		"not known":           {proxy(nil), nil, "Pod team/web is pending."},
		"not looked at":       {proxy(nil), &diagnosis.Explanation{}, "Pod team/web is pending. No target has been looked at yet."},
		"not compared":        {proxy(nil), &diagnosis.Explanation{Message: "the annotation is broken"}, "Pod team/web is pending. the annotation is broken"},
		"fits nowhere":        {proxy(nil), &diagnosis.Explanation{Targets: []diagnosis.Target{{Name: "c2", Reason: "no"}}}, "Pod team/web is pending. No target can take it now. It is tried again when one changes so that it might."},
		"being bound":         {proxy(nil), placed(), "Pod team/web is pending. It is being bound to admiralty-c2."},
		"tried":               {proxy(nil), waiting("", ""), "Pod team/web is pending. It waits for target c3 to schedule it, for 12s now."},
		"tried where unsure":  {proxy(nil), waiting("unsure", ""), "Pod team/web is pending. It waits for target c3 to say whether it fits there, for 12s now."},
		"tried by preemption": {proxy(nil), waiting("preempt", "preempting"), "Pod team/web is pending. It waits for target c3 to make room for it by evicting pods of lower priority, for 12s now. So far, the target says: preempting"},
		"tried by growing":    {proxy(nil), waiting("grow", ""), "Pod team/web is pending. It waits for target c3 to add a node for it, for 12s now."},
		"gated": {proxy(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}, {Name: "b"}} }), nil,
			"Pod team/web is held back in this cluster, by scheduling gates a, b: no target is looked at before whoever put that there removes it."},
		"running":       {proxy(boundTo(corev1.PodRunning)), placed(), "Pod team/web runs in c2 (virtual node admiralty-c2)."},
		"running since": {proxy(boundTo(corev1.PodRunning)), nil, "Pod team/web runs in the target of virtual node admiralty-c2."},
		"starting":      {proxy(boundTo(corev1.PodPending)), placed(), "Pod team/web is placed in c2 (virtual node admiralty-c2), and does not run yet."},
		"finished":      {proxy(boundTo(corev1.PodFailed)), placed(), "Pod team/web has finished (Failed) in c2 (virtual node admiralty-c2)."},
		"terminating": {proxy(func(p *corev1.Pod) {
			boundTo(corev1.PodRunning)(p)
			p.DeletionTimestamp = ptr.To(ago(-30 * time.Second))
		}), placed(),
			"Pod team/web is being deleted, within 30s.\nIt runs in c2 (virtual node admiralty-c2)."},
		"stuck": {proxy(func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(5 * time.Minute)) }), nil,
			"Pod team/web is being deleted, and should have ended 5m ago; is its target connected? See kubectl multicluster status.\nIt was not placed."},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observation{pod: test.pod, namespace: enabled(), explanation: test.known}
			if got := strings.Join(o.summary(now()), "\n"); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestSummaryOfPodsThatDoNotTakePart(t *testing.T) {
	elected := func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationElect: ""} }
	const (
		add   = `add the annotation multicluster.admiralty.io/elect: "" to it; in a Deployment, to spec.template.metadata.annotations.`
		label = "Its namespace is not enabled. Enable it: kubectl label namespace team multicluster-scheduler=enabled --overwrite"
		anew  = "create it anew"
		late  = "was not elected when it was created"
	)
	plain := &corev1.Namespace{}
	for name, test := range map[string]struct {
		pod       *corev1.Pod
		namespace *corev1.Namespace
		says      []string
		lacks     string
	}{
		"not elected":                         {ordinary(nil), enabled(), []string{add, anew}, label},
		"not elected, nor enabled":            {ordinary(nil), plain, []string{add, label, anew}, late},
		"elected, not enabled":                {ordinary(elected), plain, []string{late, label, anew}, add},
		"elected too late":                    {ordinary(elected), enabled(), []string{late, anew}, label},
		"its namespace may not be read":       {ordinary(elected), nil, []string{late, anew}, label},
		"another scheduler":                   {ordinary(func(p *corev1.Pod) { p.Spec.SchedulerName = "volcano" }), enabled(), []string{add, "Its scheduler is volcano."}, label},
		"our scheduler, named by hand":        {ordinary(func(p *corev1.Pod) { p.Spec.SchedulerName = v1alpha1.SchedulerName }), enabled(), []string{add, "leave out spec.schedulerName"}, label},
		"the namespace is not enabled (more)": {proxy(nil), plain, []string{"is pending: its namespace is not enabled (any more). Enable it: kubectl label"}, add},
		"a delegate": {ordinary(func(p *corev1.Pod) {
			p.Labels = map[string]string{v1alpha1.LabelParentClusterName: "c1"}
			p.Annotations = map[string]string{v1alpha1.AnnotationParentName: "web", v1alpha1.AnnotationParentNamespace: "team"}
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "PodChaperon", Controller: ptr.To(true)}}
		}), plain, []string{"is a delegate: it was placed here for pod team/web of cluster c1. Explain that one, in its cluster."}, label},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observation{pod: test.pod, namespace: test.namespace}
			got := strings.Join(o.summary(now()), "\n")
			for _, want := range test.says {
				if !strings.Contains(got, want) {
					t.Errorf("it lacks %q:\n%s", want, got)
				}
			}
			if strings.Contains(got, test.lacks) {
				t.Errorf("it says %q:\n%s", test.lacks, got)
			}
		})
	}
}
