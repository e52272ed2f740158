package disconnect

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

const node = "admiralty-c2"

// sourceWith returns a source cluster with these objects.
func sourceWith(t *testing.T, objects ...client.Object) *cluster.Cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	nodeNameOf := func(object client.Object) []string { return []string{object.(*corev1.Pod).Spec.NodeName} }
	return &cluster.Cluster{Context: "c1", Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", nodeNameOf).Build()}
}

func proxy(name, nodeName string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name,
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec:   corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName, NodeName: nodeName},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func TestDisconnectSaysBeforeWhatFollowsForPods(t *testing.T) {
	const double = "delegates run on there, beside the pods that replace them"
	running := proxy("web", node, corev1.PodRunning)
	for name, test := range map[string]struct {
		connected     metav1.ConditionStatus
		clusterID     string
		pods          []client.Object
		targetContext string
		want          []string // parts of the warning
	}{
		"a target that is drained": {
			connected: metav1.ConditionTrue, clusterID: "id",
			pods: []client.Object{
				proxy("done", node, corev1.PodSucceeded), proxy("elsewhere", "admiralty-c3", corev1.PodRunning),
				&corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "agent"},
					Spec:       corev1.PodSpec{NodeName: node},
				},
			},
		},
		"a target with pods": {
			connected: metav1.ConditionTrue, clusterID: "id", pods: []client.Object{running},
			want: []string{"pods on virtual node admiralty-c2: 1.", "drain the node first"},
		},
		"a dead target": {
			connected: metav1.ConditionFalse, clusterID: "id", pods: []client.Object{running},
			want: []string{
				"ClusterTarget c2 is not connected. Pods on its virtual node: 1.", double,
				"kubectl --context c1 get events -A --field-selector reason=DelegatesMayRun",
			},
		},
		"a dead target whose pods were replaced": {
			connected: metav1.ConditionFalse, clusterID: "id", want: []string{"node: 0.", double},
		},
		"a dead target that this command reaches": {
			connected: metav1.ConditionFalse, clusterID: "id", targetContext: "c2",
		},
		"a target that was never connected": {connected: metav1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
			target.Status = v1alpha1.TargetStatus{
				NodeName: node, ClusterID: test.clusterID,
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionConnected, Status: test.connected}},
			}
			said := &bytes.Buffer{}
			d := &disconnection{
				options: options{name: "c2", targetContext: test.targetContext},
				streams: genericiooptions.IOStreams{Out: &bytes.Buffer{}, ErrOut: said},
			}
			source := sourceWith(t, append(test.pods, target)...)
			if err := d.deleteTarget(t.Context(), source); err != nil {
				t.Fatal(err)
			}
			if (said.Len() > 0) != (len(test.want) > 0) {
				t.Errorf("it says %q", said)
			}
			for _, part := range test.want {
				if !strings.Contains(said.String(), part) {
					t.Errorf("it does not say %q: %s", part, said)
				}
			}
		})
	}
}
