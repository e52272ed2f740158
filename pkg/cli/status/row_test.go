package status

import (
	"bytes"
	"cmp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func proxy(node string, phase corev1.PodPhase, cpu, memory string) *corev1.Pod {
	requests := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
	return &corev1.Pod{
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func virtualNode(name string, ready corev1.ConditionStatus, unschedulable bool) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Unschedulable: unschedulable},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("4"),
				corev1.ResourceMemory: resource.MustParse("8Gi"),
				corev1.ResourcePods:   resource.MustParse("110"),
			},
		},
	}
}

func status(node string, conditions ...metav1.Condition) v1alpha1.TargetStatus {
	return v1alpha1.TargetStatus{NodeName: node, KubernetesVersion: "v1.37.1", Conditions: conditions}
}

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// expiring returns a status with credentials that are valid for a while.
func expiring(s v1alpha1.TargetStatus, left time.Duration, problem string) v1alpha1.TargetStatus {
	s.Credentials = &v1alpha1.TargetCredentials{Expires: metav1.NewTime(now.Add(left)), Problem: problem}
	return s
}

func condition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
}

func observed() *observation {
	connected := condition(v1alpha1.ConditionConnected, metav1.ConditionTrue, "Connected", "")
	o := &observation{
		clusterTargets: []v1alpha1.ClusterTarget{
			{
				ObjectMeta: metav1.ObjectMeta{Name: "c2"},
				Status: expiring(status("admiralty-c2", connected,
					condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "NodeReady", "")), 5*time.Hour,
					"the target does not let it"),
			},
			{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Status: expiring(status("admiralty-c1", connected,
				condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "NodeConflict",
					"a node of that name is not ours")), -time.Hour, "")},
			{ObjectMeta: metav1.ObjectMeta{Name: "c4"}},
		},
		targets: []v1alpha1.Target{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c3"}, Status: status("admiralty-c3",
				condition(v1alpha1.ConditionConnected, metav1.ConditionFalse, "Unreachable", "no answer for 15 s"),
				condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "NotConnected", "see Connected"))},
		},
		nodes: map[string]*corev1.Node{
			"admiralty-c2": virtualNode("admiralty-c2", corev1.ConditionTrue, true),
			"admiralty-c3": virtualNode("admiralty-c3", corev1.ConditionFalse, false),
		},
		use: map[string]*use{},
	}
	for _, pod := range []*corev1.Pod{
		proxy("admiralty-c2", corev1.PodRunning, "500m", "1Gi"),
		proxy("admiralty-c2", corev1.PodPending, "1", "1Gi"),
		proxy("admiralty-c2", corev1.PodSucceeded, "1", "1Gi"),
		proxy("", corev1.PodPending, "1", "1Gi"),
		proxy("admiralty-c3", corev1.PodRunning, "5", "1Gi"),
	} {
		count(o.use, pod)
	}
	return o
}

func TestTableWithTroublesBelow(t *testing.T) {
	out := &bytes.Buffer{}
	if err := printRows(out, observed().rows(), "c1", "", now); err != nil {
		t.Fatal(err)
	}
	want := `
NAME   NAMESPACE   CONNECTED   NODE                       VERSION   EXPIRES   PODS    FREE CPU   FREE MEMORY
c1     -           True        None                       v1.37.1   expired   -       -          -
c2     -           True        Ready,SchedulingDisabled   v1.37.1   5h        2/110   2.5        6.0Gi
c4     -           Unknown     None                       -         -         -       -          -
c3     team-a      False       NotReady                   v1.37.1   -         1/110   0.0        7.0Gi

ClusterTarget c1 is connected, but its virtual node is not ready (NodeConflict): a node of that name is not ours
The credentials for ClusterTarget c2 expire at 2030-01-01T05:00:00Z and are not renewed: the target does not let it
ClusterTarget c4 has not been looked at yet: does the manager of this cluster run?
Target team-a/c3 is not connected (Unreachable): no answer for 15 s
`
	if diff := gocmp.Diff(want[1:], out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestOutputsForProgramsAndWide(t *testing.T) {
	for output, want := range map[string]string{
		"wide": "NODE NAME",
		"json": `"freeCPU": "2500m"`,
		"yaml": "podsAllocatable: \"110\"",
	} {
		t.Run(output, func(t *testing.T) {
			out := &bytes.Buffer{}
			if err := printRows(out, observed().rows(), "c1", output, now); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), want) {
				t.Errorf("output lacks %q:\n%s", want, out)
			}
		})
	}
	if err := checkOutput("name"); err == nil {
		t.Error("an unknown output was accepted")
	}
}

func TestWithoutTargetsTheOutputNamesTheNextStep(t *testing.T) {
	out := &bytes.Buffer{}
	if err := printRows(out, nil, "c1", "", now); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "kubectl multicluster connect") {
		t.Errorf("output: %s", out)
	}
}

func TestASilentManagerIsATrouble(t *testing.T) {
	o := observed()
	o.clusterTargets, o.targets = o.clusterTargets[:1], nil
	o.clusterTargets[0].Status.Conditions = append(o.clusterTargets[0].Status.Conditions,
		condition(v1alpha1.ConditionAwake, metav1.ConditionFalse, v1alpha1.ReasonSilent, "no renewal"))
	out := &bytes.Buffer{}
	if err := printRows(out, o.rows(), "c1", "", now); err != nil {
		t.Fatal(err)
	}
	if want := "ClusterTarget c2 is connected, but takes no new pods (Silent): no renewal\n"; !strings.HasSuffix(
		out.String(), want) {
		t.Errorf("output lacks %q:\n%s", want, out)
	}
}

func TestTroubleSaysWhatToDo(t *testing.T) {
	connected := condition(v1alpha1.ConditionConnected, metav1.ConditionTrue, "Connected", "connected to c2, v1")
	ready := condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "NodeReady", "")
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		node       corev1.ConditionStatus // True if empty
		taint      string                 // the key of the node's taint, if any
		want       string
	}{
		"nothing is wrong": {conditions: []metav1.Condition{connected, ready}},
		"the manager of the source is dead": {
			conditions: []metav1.Condition{connected, ready}, node: corev1.ConditionUnknown,
			want: "ClusterTarget c2 was connected, but its virtual node is Unknown: does the manager of this cluster " +
				"run? See kubectl get pods -A -l app.kubernetes.io/name=multicluster-scheduler. Without it, targets " +
				"stop fenced pods",
		},
		"a taint that somebody forgot": {
			conditions: []metav1.Condition{connected, ready}, taint: corev1.TaintNodeOutOfService,
			want: "ClusterTarget c2 is connected, but takes no pods: its virtual node has the taint " +
				"node.kubernetes.io/out-of-service. Remove it when the target is back: " +
				"kubectl taint node admiralty-c2 node.kubernetes.io/out-of-service-",
		},
		"a taint that keeps the node for some": {
			conditions: []metav1.Condition{connected, ready}, taint: "example.org/dedicated",
		},
		"a summary that is not used": {
			conditions: []metav1.Condition{ready, condition(
				v1alpha1.ConditionConnected, metav1.ConditionTrue, v1alpha1.ReasonInvalidSummary, "update it")},
			want: "ClusterTarget c2 is connected, with a warning (InvalidSummary): update it",
		},
		"clocks that differ": {
			conditions: []metav1.Condition{ready, condition(
				v1alpha1.ConditionConnected, metav1.ConditionTrue, "Connected", "connected to c2; its clock is wrong")},
			want: "ClusterTarget c2 is connected, with a warning (Connected): connected to c2; its clock is wrong",
		},
		"the next version refuses something": {
			conditions: []metav1.Condition{connected, ready, condition(
				v1alpha1.ConditionRestricted, metav1.ConditionFalse, v1alpha1.ReasonWouldRefuse, "loopback")},
			want: "ClusterTarget c2 is connected, with a warning (WouldRefuse): loopback",
		},
		"another cluster": {
			conditions: []metav1.Condition{
				condition(v1alpha1.ConditionConnected, metav1.ConditionFalse, v1alpha1.ReasonOtherCluster, "set spec"),
				condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "NotConnected", "see Connected"),
			},
			want: "ClusterTarget c2 is not connected (OtherCluster): set spec",
		},
		"a Secret that was deleted": {
			conditions: []metav1.Condition{
				connected, ready,
				condition(v1alpha1.ConditionSecretUsable, metav1.ConditionFalse, "SecretNotFound", "create it"),
			},
			want: "ClusterTarget c2 is connected, but its Secret cannot be used: create it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
			target.Status = status("admiralty-c2", test.conditions...)
			node := virtualNode("admiralty-c2", cmp.Or(test.node, corev1.ConditionTrue), false)
			node.Spec.Taints = []corev1.Taint{{Key: test.taint, Effect: corev1.TaintEffectNoExecute}}
			o := &observation{
				clusterTargets: []v1alpha1.ClusterTarget{target}, nodes: map[string]*corev1.Node{node.Name: node},
			}
			if got := o.rows()[0].trouble(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
