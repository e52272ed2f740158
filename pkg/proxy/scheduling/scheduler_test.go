package scheduling

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	fakeclients "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedulerprofile "k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

func TestASchedulerNeedsATimeoutAndMetricsOfItsOwn(t *testing.T) {
	registered := prometheus.NewRegistry()
	options := Options{
		Config: &rest.Config{Host: "source"}, Registry: engage.NewRegistry(), Timeout: time.Second, Metrics: registered,
	}
	s, err := New(options)
	if err != nil || s.clock != (clock.RealClock{}) {
		t.Fatalf("clock %v, error %v", s.clock, err)
	}
	if limit := s.clientset.CoreV1().RESTClient().GetRateLimiter(); limit != nil {
		t.Errorf("requests are limited: %v", limit)
	}
	s.plugin.metrics.placed("c1", diagnosis.Bound, time.Second)
	if families, err := registered.Gather(); err != nil || len(families) != 1 {
		t.Errorf("metrics: %v, error %v", families, err)
	}
	if _, err := New(options); err == nil {
		t.Error("a second scheduler has the same metrics")
	}
	options.Metrics = nil
	if _, err := New(options); err != nil {
		t.Error(err)
	}
	options.Config = &rest.Config{Host: "source", TLSClientConfig: rest.TLSClientConfig{CAFile: "none"}}
	if _, err := New(options); err == nil {
		t.Error("there is a client without a certificate")
	}
	options.Config = &rest.Config{Host: "source"}
	for timeout, fails := range map[time.Duration]bool{-1: true, 0: true, 1: false} {
		options.Timeout = timeout
		if _, err := New(options); (err != nil) != fails {
			t.Errorf("with the timeout %v: %v", timeout, err)
		}
	}
}

// newScheduler returns a Scheduler of a cluster with these objects.
func newScheduler(clients kubernetes.Interface) *Scheduler {
	return &Scheduler{
		clientset: clients, clock: clock.RealClock{}, engaged: make(chan struct{}, 1),
		plugin: newPlugin(Options{Timeout: time.Minute, Clock: clock.RealClock{}}),
	}
}

func TestTheProfileHasThesePluginsOnly(t *testing.T) {
	s := newScheduler(fakeclients.NewClientset())
	recorders := func(string) events.EventRecorderLogger { return quiet{} }
	made, err := s.framework(t.Context(), newInformers(s.clientset), schedulerprofile.RecorderFactory(recorders))
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Profiles) != 1 || made.Profiles[v1alpha1.SchedulerName] == nil {
		t.Fatalf("profiles: %v", made.Profiles)
	}
	plugins := made.Profiles[v1alpha1.SchedulerName].ListPlugins()
	weights := map[string]int32{}
	for _, scores := range plugins.Score.Enabled {
		weights[scores.Name] = scores.Weight
	}
	want := map[string]int32{
		names.TaintToleration: 3, names.NodeAffinity: 2, names.PodTopologySpread: 2, names.InterPodAffinity: 2,
		Name: 1, turnsName: 1000,
	}
	if diff := cmp.Diff(want, weights); diff != "" {
		t.Errorf("what scores (-want +got):\n%s", diff)
	}
	for point, set := range map[string]config.PluginSet{
		"PostFilter": plugins.PostFilter, "Bind": plugins.Bind, "Reserve": plugins.Reserve,
	} {
		if len(set.Enabled) != 1 || set.Enabled[0].Name != Name {
			t.Errorf("%s: %v", point, set.Enabled)
		}
	}
	if filters := plugins.Filter.Enabled; filters[len(filters)-1].Name != Name {
		t.Errorf("ours is not the last filter: %v", filters)
	}
	if s.plugin.binder == nil || s.plugin.handle == nil || s.plugin.namespaces == nil || s.plugin.nodes == nil {
		t.Error("the plugin has not got what it needs")
	}
}

func TestPodsAreNotSpreadUnlessTheyAskForIt(t *testing.T) {
	of, err := profile()
	if err != nil {
		t.Fatal(err)
	}
	for _, plugin := range of.PluginConfig {
		if spread, ok := plugin.Args.(*config.PodTopologySpreadArgs); ok {
			if spread.DefaultingType != config.ListDefaulting || len(spread.DefaultConstraints) > 0 {
				t.Errorf("by default: %+v", spread)
			}
			return
		}
	}
	t.Error("there are no arguments about spreading")
}

// TestASchedulerRunsUntilItsContextEnds has one proxy, and no target.
func TestASchedulerRunsUntilItsContextEnds(t *testing.T) {
	pod := newPod("p", list("cpu", "1"))
	clients := fakeclients.NewClientset(pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Namespace, Labels: map[string]string{
			v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue,
		},
	}})
	patches := make(chan string, 10)
	clients.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if patch, ok := a.(clienttesting.PatchAction); ok {
			patches <- string(patch.GetPatch())
		}
		// The fake keeps what its watches send, and informers change it. So nothing is to be sent.
		return true, pod.DeepCopy(), nil
	})
	s := newScheduler(clients)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	if patch := receive(t, "the pod's condition", patches); !strings.Contains(patch, diagnosis.NoTargets) {
		t.Errorf("the pod says %s", patch)
	}
	explained, known := s.Explain(client.ObjectKeyFromObject(pod))
	if !known || explained.Message != diagnosis.NoTargets {
		t.Errorf("explained: %+v", explained)
	}
	end()
	if err := receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
}

func TestASchedulerThatEndsBeforeItBeginsIsNoError(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	ended := make(chan error, 1)
	go func() { ended <- newScheduler(fakeclients.NewClientset()).Start(ctx) }()
	if err := receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
}

func TestWhichNodesANewLeaderWaitsFor(t *testing.T) {
	w := newWorld()
	s := &Scheduler{plugin: w.plugin}
	w.empty(t, "c1")
	for name, test := range map[string]struct {
		node      string
		condition corev1.NodeConditionType
		status    corev1.ConditionStatus
		want      bool
	}{
		"its target was connected":     {"admiralty-c2", corev1.NodeReady, corev1.ConditionTrue, true},
		"its target is engaged":        {"admiralty-c1", corev1.NodeReady, corev1.ConditionTrue, false},
		"its target was not connected": {"admiralty-c2", corev1.NodeReady, corev1.ConditionUnknown, false},
		"something else is so":         {"admiralty-c2", corev1.NodeDiskPressure, corev1.ConditionTrue, false},
	} {
		node := newNode(test.node, nil).Node()
		node.Status.Conditions = []corev1.NodeCondition{{Type: test.condition, Status: test.status}}
		if got := s.expected(node); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
