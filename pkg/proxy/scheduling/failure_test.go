package scheduling

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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
			if got := (&Scheduler{plugin: w.plugin}).tell(pod, unfit, test.next); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			explained, ok := w.explanations.Get(client.ObjectKeyFromObject(pod))
			if !ok || explained.Message != test.want || len(explained.Targets) != len(test.reasons) || explained.Targets[0].Trial != test.next.kind.String() {
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

func TestMessagesFitIntoEvents(t *testing.T) {
	w := newWorld()
	statuses := framework.NewDefaultNodeToStatus()
	for i := range 100 {
		statuses.Set(fmt.Sprintf("n%d", i), fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("no node has %d free CPUs", i)).WithPlugin(Name))
	}
	unfit := &framework.FitError{NumAllNodes: 100, Diagnosis: framework.Diagnosis{NodeToStatus: statuses}}
	pod := newPod("p", nil)
	got := (&Scheduler{plugin: w.plugin}).tell(pod, unfit, trial{})
	if len(got) > maxMessage || len(got) < maxMessage-100 || !strings.HasSuffix(got, "; and more: see kubectl multicluster explain pod.") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if explained, _ := w.explanations.Get(client.ObjectKeyFromObject(pod)); len(explained.Targets) != 100 || len(explained.Message) < 2*maxMessage {
		t.Errorf("explained: %d targets, %d bytes", len(explained.Targets), len(explained.Message))
	}
}

func TestAbridge(t *testing.T) {
	long := strings.Repeat("ä", 100)
	got := abridge([]string{long, "b"}, 100)
	if len(got) > 100 || !utf8.ValidString(got) || !strings.HasPrefix(got, "ää") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if got := abridge([]string{"a", "b"}, 100); got != "a; b" {
		t.Errorf("got %q", got)
	}
}
