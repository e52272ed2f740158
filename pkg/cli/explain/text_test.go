package explain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
)

func TestReportAsText(t *testing.T) {
	unschedulable := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "c2: too small",
	}
	unbound, running := corev1.PodStatus{Phase: corev1.PodPending}, corev1.PodStatus{Phase: corev1.PodRunning}
	const wrongPlatform = "no match for platform in manifest: not found"
	noImage := corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "app",
		State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: wrongPlatform},
		},
	}}}
	hint := diagnosis.Containers(proxy("", noImage))[0].Hint
	for name, test := range map[string]struct {
		seen *observation
		want string
	}{
		"a pending pod, with its targets and attempts": {&observation{
			pod: proxy("", unbound), explanation: pending(),
		}, `
Pod team/web is pending. It waits for target c3 to add a node for it, for 90s now. So far, the target says: too small
It needs: cpu 2, memory 4Gi

Targets, as looked at 90s ago:
TARGET    VERDICT    SCORE   REASON
c3        may grow   -       no node has 2 free CPUs (largest: 1.5)
c2        no         -       left out for 20s: refused: exceeded quota: compute
team/c4   no         -       no node has 4Gi free memory (largest: 1Gi), and 3 nodes have the taint gpu=true:NoSchedule

Tried:
TARGET   TRIAL   STARTED   FOR     OUTCOME   ANSWER
c2       -       2m ago    350ms   Refused   refused: exceeded quota: compute
c5       -       -         -       Lost      c5 was deleted
c3       grow    90s ago   90s     Waiting   too small
`},
		"a placed pod, with scores": {&observation{pod: proxy("admiralty-c2", running), explanation: placed()}, `
Pod team/web runs in c2 (virtual node admiralty-c2).
It needs: cpu 2, memory 4Gi

Targets, as looked at 3h ago:
TARGET   VERDICT   SCORE                                       REASON
c2       chosen    170 (Admiralty 100, PodTopologySpread 70)   -
c3       fits      0                                           -
and 4 more that were not chosen

Tried:
TARGET   TRIAL   STARTED   FOR   OUTCOME   ANSWER
c2       -       3h ago    12s   Bound     -
`},
		"a pod that was placed, of a target that was lost": {&observation{
			pod: proxy("admiralty-c2", running), explanation: placed(), node: &corev1.Node{
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
					{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NoKey"},
				}},
			},
			events: []corev1.Event{{
				Reason: "FencingDoesNotHold", ReportingController: "admiralty-proxy", EventTime: exactly(time.Minute),
				Message: "this pod is not fenced",
			}},
		}, `
Pod team/web runs in c2 (virtual node admiralty-c2); this is the status last seen: its virtual node is Unknown (NoKey).
It needs: cpu 2, memory 4Gi

Targets, as looked at 3h ago:
TARGET   VERDICT   SCORE                                       REASON
c2       chosen    170 (Admiralty 100, PodTopologySpread 70)   -
c3       fits      0                                           -
and 4 more that were not chosen

Tried:
TARGET   TRIAL   STARTED   FOR   OUTCOME   ANSWER
c2       -       3h ago    12s   Bound     -

Events:
LAST SEEN   REASON               FROM              MESSAGE
60s ago     FencingDoesNotHold   admiralty-proxy   this pod is not fenced
`},
		"a pending pod, without an explanation": {&observation{
			pod: proxy("", corev1.PodStatus{
				Phase: corev1.PodPending, Conditions: []corev1.PodCondition{unschedulable},
			}),
			missing: "The manager was not asked.",
			events: []corev1.Event{
				{
					Reason: "FailedScheduling", ReportingController: "admiralty-proxy", EventTime: exactly(time.Minute),
					Message: "c2: too small\nc3: full",
				},
				{
					Reason: "DelegateLost", Source: corev1.EventSource{Component: "multicluster-feedback"},
					LastTimestamp: ago(5 * time.Second), Message: "gone",
				},
			},
		}, `
Pod team/web is pending.
It needs: cpu 2, memory 4Gi

The manager was not asked.

The pod's condition PodScheduled says: Unschedulable: c2: too small

Events:
LAST SEEN   REASON             FROM                    MESSAGE
60s ago     FailedScheduling   admiralty-proxy         c2: too small c3: full
5s ago      DelegateLost       multicluster-feedback   gone
`},
		"a placed pod whose image is not for that node": {&observation{
			pod: proxy("admiralty-c2", noImage), missing: "The manager does not know.",
		}, `
Pod team/web is placed in the target of virtual node admiralty-c2, and does not run yet.
It needs: cpu 2, memory 4Gi

Container app: ErrImagePull: no match for platform in manifest: not found
` + hint + `

The manager does not know.
`},
	} {
		t.Run(name, func(t *testing.T) {
			want := strings.TrimPrefix(test.want, "\n")
			if diff := cmp.Diff(want, string(newReport(test.seen, now()).text(now()))); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportForPrograms(t *testing.T) {
	r := newReport(&observation{pod: proxy("", corev1.PodStatus{}), explanation: pending()}, now())
	for output, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(raw []byte, into any) error { return yaml.UnmarshalStrict(raw, into) },
	} {
		t.Run(output, func(t *testing.T) {
			out, got := &bytes.Buffer{}, report{}
			if err := r.write(out, now(), output); err != nil {
				t.Fatal(err)
			}
			if err := decode(out.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, got); diff != "" {
				t.Errorf("the report when read back (-want +got):\n%s\n%s", diff, out)
			}
		})
	}
	if err := checkOutput("wide"); err == nil || !strings.Contains(err.Error(), "text, json or yaml") {
		t.Errorf("error for an unknown output: %v", err)
	}
}

func TestPodNameFromArguments(t *testing.T) {
	for args, want := range map[string]string{
		"pod web": "web", "pods web": "web", "po web": "web", "pod/web": "web", "po/web": "web", "Pod web": "web",
	} {
		if got, err := podName(strings.Fields(args)); err != nil || got != want {
			t.Errorf("%s: %q, %v", args, got, err)
		}
	}
	for args, want := range map[string]string{
		"": "which pod?", "pod": "which pod?", "pod/": "which pod?",
		"web":            `only pods are explained, not "web": kubectl multicluster explain pod NAME`,
		"deployment web": "only pods are explained", "pod web db": "one pod at a time",
	} {
		if _, err := podName(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", args, err, want)
		}
	}
}

func TestEventsAboutScheduling(t *testing.T) {
	for name, test := range map[string]struct {
		event corev1.Event
		want  bool
	}{
		"an event of our scheduler": {corev1.Event{Reason: "Any", ReportingController: "admiralty-proxy"}, true},
		"an event of feedback": {
			corev1.Event{Reason: "DelegateLost", ReportingController: "multicluster-feedback"}, true,
		},
		"an event of another scheduler": {
			corev1.Event{Reason: "FailedScheduling", ReportingController: "default-scheduler"}, true,
		},
		"an event of a kubelet": {corev1.Event{Reason: "Pulled", ReportingController: "kubelet"}, false},
	} {
		if got := aboutScheduling(&test.event); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	last := metav1.NewMicroTime(now())
	series := corev1.Event{EventTime: exactly(time.Hour), Series: &corev1.EventSeries{LastObservedTime: last}}
	if got := lastSeen(&series); !got.Equal(now()) {
		t.Errorf("an event of a series was last seen %s", got)
	}
}
