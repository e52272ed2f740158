package diagnosis

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestSummaryOfProxies(t *testing.T) {
	tried := func(last Attempt) *Explanation {
		return &Explanation{
			UID: "1", Targets: []Target{{Name: "c2", Reason: "no"}},
			Attempts: []Attempt{{Target: "c2", Outcome: Refused}, last},
		}
	}
	waiting := func(trial, reason string) *Explanation {
		return tried(Attempt{
			Target: "c3", Trial: trial, Started: exactly(12 * time.Second), Outcome: Waiting, Reason: reason,
		})
	}
	gated := proxy(func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}, {Name: "b"}}
	})
	terminating := proxy(func(p *corev1.Pod) {
		boundTo(corev1.PodRunning)(p)
		p.DeletionTimestamp = ptr.To(ago(-30 * time.Second))
	})
	stuck := proxy(func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(5 * time.Minute)) })
	const (
		pending = "Pod team/web is pending. "
		nowhere = pending + "No target can take it now. It is tried again when a target changes so that it might."
	)
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		known *Explanation
		want  string
	}{
		"pending, without an explanation": {proxy(nil), nil, "Pod team/web is pending."},
		"pending, not looked at yet":      {proxy(nil), &Explanation{}, pending + "No target has been looked at yet."},
		"pending, targets not compared": {
			proxy(nil), &Explanation{Message: "the annotation is broken"}, pending + "the annotation is broken",
		},
		"pending, fits nowhere": {proxy(nil), &Explanation{Targets: []Target{{Name: "c2", Reason: "no"}}}, nowhere},
		"pending, and not for a reason of the chosen target": {
			proxy(nil), &Explanation{Targets: []Target{{Name: "c2", Chosen: true}}, Message: "it waits for its claim"},
			pending + "It waits: it waits for its claim.",
		},
		"pending, the last target refused it": {
			proxy(nil), tried(Attempt{Target: "c3", Outcome: Refused}),
			nowhere + " The last one tried was c3: it does not take the pod.",
		},
		"pending, the last target was late": {
			proxy(nil), tried(Attempt{Target: "c3", Outcome: TimedOut}),
			nowhere + " The last one tried was c3: it did not decide in time.",
		},
		"pending, the delegate is scheduled in another target": {
			proxy(nil), tried(Attempt{Target: "c3", Outcome: ScheduledElsewhere}),
			nowhere + " The last one tried was c3: the pod's delegate is scheduled in another target.",
		},
		"pending, the last PodChaperon could not be created": {
			proxy(nil), tried(Attempt{Target: "c3", Outcome: CreateFailed}),
			nowhere + " The last one tried was c3: the delegate could not be requested.",
		},
		"pending, an earlier delegate is still ending": {
			proxy(nil), tried(Attempt{Target: "c3", Outcome: StillEnding}),
			nowhere + " The last one tried was c3: an earlier delegate of the pod is still being deleted there.",
		},
		"pending, being bound": {proxy(nil), placed(), pending + "It is being bound to admiralty-c2."},
		"pending, tried where it fits": {
			proxy(nil), waiting("", ""), pending + "It waits for target c3 to schedule it, for 12s now.",
		},
		"pending, tried where the target is unsure": {
			proxy(nil), waiting("unsure", ""),
			pending + "It waits for target c3 to say whether it fits there, for 12s now.",
		},
		"pending, tried where the target may preempt": {
			proxy(nil), waiting("preempt", "preempting"), pending + "It waits for target c3 to make room for it by " +
				"evicting pods of lower priority, for 12s now. So far, the target says: preempting",
		},
		"pending, tried where the target may grow": {
			proxy(nil), waiting("grow", ""), pending + "It waits for target c3 to add a node for it, for 12s now.",
		},
		"held back by scheduling gates": {
			gated, nil, "Pod team/web is held back in this cluster by scheduling gates a, b. " +
				"The scheduler looks for a target once all gates are removed; whoever added a gate removes it.",
		},
		"running": {
			proxy(boundTo(corev1.PodRunning)), placed(), "Pod team/web runs in c2 (virtual node admiralty-c2).",
		},
		"running, without an explanation": {
			proxy(boundTo(corev1.PodRunning)), nil, "Pod team/web runs in the target of virtual node admiralty-c2.",
		},
		"starting": {
			proxy(boundTo(corev1.PodPending)), placed(),
			"Pod team/web is placed in c2 (virtual node admiralty-c2), and does not run yet.",
		},
		"finished": {
			proxy(boundTo(corev1.PodFailed)), placed(),
			"Pod team/web has finished (Failed) in c2 (virtual node admiralty-c2).",
		},
		"being deleted in time": {
			terminating, placed(),
			"Pod team/web is being deleted, within 30s.\nIt runs in c2 (virtual node admiralty-c2).",
		},
		"being deleted for too long": {
			stuck, nil, "Pod team/web is being deleted, and should have ended 5m ago; has its delegate ended, " +
				"and is its target connected? See the pod's events, and kubectl multicluster status.\n" +
				"It was not placed.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Subject{Pod: test.pod, Namespace: enabled(), Explanation: test.known}
			if got := strings.Join(s.Summary(now()), "\n"); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestSummaryOfPodsThatAreNotProxies(t *testing.T) {
	elected := func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationElect: ""} }
	scheduler := func(name string) func(p *corev1.Pod) { return func(p *corev1.Pod) { p.Spec.SchedulerName = name } }
	delegate := func(p *corev1.Pod) {
		p.Labels = map[string]string{v1alpha1.LabelParentClusterName: "c1"}
		p.Annotations = map[string]string{
			v1alpha1.AnnotationParentName: "web", v1alpha1.AnnotationParentNamespace: "team",
		}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "PodChaperon", Controller: ptr.To(true)}}
	}
	const (
		add = `add the annotation multicluster.admiralty.io/elect: "" to it; ` +
			`in a Deployment, to spec.template.metadata.annotations.`
		label = "Its namespace is not enabled. Enable it: kubectl label namespace team " +
			"multicluster-scheduler=enabled --overwrite"
		again = "create the pod again"
		late  = "was not elected when it was created"
		from  = "is a delegate: it was placed here for pod team/web of cluster c1. Explain that pod, in its cluster."
	)
	plain := &corev1.Namespace{}
	for name, test := range map[string]struct {
		pod       *corev1.Pod
		namespace *corev1.Namespace
		says      []string
		lacks     string
	}{
		"not elected, namespace enabled":     {ordinary(nil), enabled(), []string{add, again}, label},
		"not elected, namespace not enabled": {ordinary(nil), plain, []string{add, label, again}, late},
		"elected, namespace not enabled":     {ordinary(elected), plain, []string{late, label, again}, add},
		"elected after its creation":         {ordinary(elected), enabled(), []string{late, again}, label},
		"elected, namespace cannot be read":  {ordinary(elected), nil, []string{late, again}, label},
		"not elected, another scheduler": {
			ordinary(scheduler("volcano")), enabled(), []string{add, "Its scheduler is volcano."}, label,
		},
		"not elected, our scheduler named by hand": {
			ordinary(scheduler(v1alpha1.SchedulerName)), enabled(), []string{add, "leave out spec.schedulerName"},
			label,
		},
		"a proxy whose namespace is not enabled (more)": {
			proxy(nil), plain,
			[]string{"is pending: its namespace is not enabled (any more). Enable it: kubectl label"}, add,
		},
		"a delegate": {ordinary(delegate), plain, []string{from}, label},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(Subject{Pod: test.pod, Namespace: test.namespace}.Summary(now()), "\n")
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
