package usage

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const nodeName = "admiralty-c2"

// theirs is the time in the target, whose clock is another one.
var theirs = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a Meter between a source and a target, whose metrics API has an answer.
type world struct {
	meter  *Meter
	target *engage.Target
	clock  *clocktesting.FakePassiveClock
	// answer is that for namespace default.
	answer  string
	code    int
	asked   atomic.Int32
	proxies client.Client
	pod     *corev1.Pod
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		code: http.StatusOK, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		if r.URL.Path != "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods" ||
			r.URL.Query().Get("labelSelector") != "multicluster.admiralty.io/parent-cluster-id=c1" {
			t.Errorf("the target was asked for %s", r.URL)
		}
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(w.code)
		fmt.Fprint(out, w.answer)
	}))
	t.Cleanup(server.Close)
	w.pod = proxyPod("app")
	w.proxies = fake.NewClientBuilder().WithObjects(w.pod).WithStatusSubresource(&corev1.Pod{}).Build()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: translate.DelegateName(w.pod),
		Labels: map[string]string{v1alpha1.LabelParentUID: string(w.pod.UID)},
		Annotations: map[string]string{
			v1alpha1.AnnotationParentNamespace: "default", v1alpha1.AnnotationParentName: w.pod.Name,
		},
	}}
	w.target = &engage.Target{
		Key: types.NamespacedName{Name: "c2"}, NodeName: nodeName, Config: &rest.Config{Host: server.URL},
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(chaperon).Build(),
	}
	registry := engage.NewRegistry()
	if err := registry.Engage(t.Context(), w.target); err != nil {
		t.Fatal(err)
	}
	w.meter = New(Options{
		Registry: registry, Proxies: w.proxies, ClusterID: "c1", Clock: w.clock, Logger: testr.New(t),
	})
	return w
}

func proxyPod(containers ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid"},
		Spec:       corev1.PodSpec{NodeName: nodeName},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, name := range containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status(name, theirs))
	}
	return pod
}

func status(name string, started time.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)},
	}}
}

// report makes the target report usages, such as `app 250m 1Mi`, at a time after theirs.
func (w *world) report(after time.Duration, usages ...string) {
	var containers []string
	for _, usage := range usages {
		parts := strings.Fields(usage)
		containers = append(containers,
			fmt.Sprintf(`{"name":%q,"usage":{"cpu":%q,"memory":%q}}`, parts[0], parts[1], parts[2]))
	}
	w.answer = fmt.Sprintf(
		`{"kind":"PodMetricsList","items":[{"metadata":{"name":%q},"timestamp":%q,"window":"15s","containers":[%s]}]}`,
		translate.DelegateName(w.pod), theirs.Add(after).Format(time.RFC3339), strings.Join(containers, ","))
}

// setStatus changes the status of the proxy.
func (w *world) setStatus(t *testing.T, change func(*corev1.PodStatus)) {
	t.Helper()
	change(&w.pod.Status)
	if err := w.proxies.Status().Update(t.Context(), w.pod); err != nil {
		t.Fatal(err)
	}
}

func (w *world) read(t *testing.T) *Node {
	t.Helper()
	node, err := w.meter.Node(t.Context(), w.target)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// later reads after a time.
func (w *world) later(t *testing.T, d time.Duration) *Node {
	t.Helper()
	w.clock.SetTime(w.clock.Now().Add(d))
	return w.read(t)
}

// rate returns the rate that metrics-server computes for the container app, in milli-CPUs.
func rate(t *testing.T, before, after *Node) int {
	t.Helper()
	if len(before.Pods) != 1 || len(after.Pods) != 1 {
		t.Fatalf("%d and %d pods: %v, %v", len(before.Pods), len(after.Pods), before.Failed, after.Failed)
	}
	was, is := before.Pods[0].Containers["app"], after.Pods[0].Containers["app"]
	if !is.Begun.Equal(was.Begun) || !is.Time.After(was.Time) {
		t.Fatalf("no rate from %+v and %+v", was, is)
	}
	return int(math.Round((is.Seconds - was.Seconds) / is.Time.Sub(was.Time).Seconds() * 1000))
}

func TestReadersGetTheRatesOfTheTarget(t *testing.T) {
	w := newWorld(t)
	w.report(time.Hour, "app 250m 1Mi")
	first := w.read(t)
	w.report(time.Hour+15*time.Second, "app 1500m 2Mi")
	second := w.later(t, 15*time.Second)
	if got := rate(t, first, second); got != 1500 {
		t.Errorf("the rate is %dm", got)
	}
	if got := second.Pods[0].Containers["app"].Memory; got != 2<<20 {
		t.Errorf("%d bytes", got)
	}
	nodeRate := (second.Usage.Seconds - first.Usage.Seconds) / 15
	if math.Abs(nodeRate-1.5) > 1e-6 || second.Usage.Memory != 2<<20 {
		t.Errorf("the node uses %v CPUs, %d bytes", nodeRate, second.Usage.Memory)
	}
}

func TestAnIdlePodIsNotTakenForOneWithoutMetrics(t *testing.T) {
	w := newWorld(t)
	w.report(time.Hour, "app 0 1Mi")
	first := w.read(t)
	w.report(time.Hour+time.Minute, "app 0 1Mi")
	if got := rate(t, first, w.later(t, time.Minute)); got != 0 {
		t.Errorf("the rate is %dm", got)
	}
	if first.Pods[0].Containers["app"].Seconds == 0 || first.Usage.Seconds == 0 {
		t.Error("metrics-server ignores counters of zero")
	}
}

func TestAnswersAreUsedAgain(t *testing.T) {
	w := newWorld(t)
	w.report(time.Hour, "app 250m 1Mi")
	first := w.read(t)
	if second := w.later(t, resolution-time.Second); second != first || w.asked.Load() != 1 {
		t.Errorf("the target was asked %d times", w.asked.Load())
	}
	third := w.later(t, time.Second)
	if got := third.Pods[0].Containers["app"]; got != first.Pods[0].Containers["app"] || w.asked.Load() != 2 {
		t.Errorf("the same sample has counted twice: %+v, asked %d times", got, w.asked.Load())
	}
}

func TestACounterBeginsWithItsContainer(t *testing.T) {
	w := newWorld(t)
	w.report(10*time.Second, "app 500m 1Mi") // The sample covers the life of the container.
	first := w.read(t).Pods[0].Containers["app"]
	if got := first.Time.Sub(first.Begun); got != 10*time.Second || math.Abs(first.Seconds-5) > 0.01 {
		t.Errorf("%v seconds in %s", first.Seconds, got)
	}
	w.setStatus(t, func(s *corev1.PodStatus) { s.ContainerStatuses[0] = status("app", theirs.Add(time.Minute)) })
	w.report(50*time.Second, "app 500m 1Mi")
	if node := w.later(t, time.Minute); len(node.Pods) != 0 {
		t.Errorf("a sample from before the restart counts: %+v", node.Pods)
	}
	w.report(72*time.Second, "app 100m 1Mi")
	second := w.later(t, 15*time.Second).Pods[0].Containers["app"]
	if got := second.Time.Sub(second.Begun); got != 12*time.Second || second.Seconds > 2 {
		t.Errorf("%v seconds in %s", second.Seconds, got)
	}
	if !second.Begun.After(first.Time) {
		t.Error("readers would not see the restart")
	}
}

// TestANewLeaderIsSeenAsARestart has a reader that saw the counter of the replica before. Otherwise it would compute a
// leap, and an autoscaler would follow.
func TestANewLeaderIsSeenAsARestart(t *testing.T) {
	w := newWorld(t)
	w.report(time.Hour, "app 10m 1Mi")
	before := w.read(t).Pods[0].Containers["app"]
	w.meter = New(w.meter.options)
	w.report(time.Hour+15*time.Second, "app 3 1Mi")
	if after := w.later(t, 15*time.Second).Pods[0].Containers["app"]; !after.Begun.After(before.Time) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestPodsWithoutAllNumbersAreLeftOut(t *testing.T) {
	for name, usages := range map[string][]string{
		"without one of its containers": {"app 1 1Mi"},
		"without memory":                {"app 1 1Mi", "second 1 0"},
		"with a negative number":        {"app 1 1Mi", "second -1 1Mi"},
		"with a huge number":            {"app 1 1Mi", "second 1e17 1Mi"},
		"with a dangerous number":       {"app 1 1Mi", "second 1e-999999999 1Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setStatus(t, func(s *corev1.PodStatus) {
				s.ContainerStatuses = append(s.ContainerStatuses, status("second", theirs))
			})
			w.report(time.Hour, usages...)
			if node := w.read(t); len(node.Pods) != 0 || node.Usage != nil {
				t.Errorf("got %+v, %+v", node.Pods, node.Usage)
			}
			w.report(time.Hour+time.Minute, "app 1 1Mi", "second 1 1Mi", "injected 1 1Mi")
			if node := w.later(t, time.Minute); len(node.Pods) != 1 || len(node.Pods[0].Containers) != 2 {
				t.Errorf("got %+v", node.Pods)
			}
		})
	}
}

func TestOtherPodsHaveNoUsage(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"on another node":    func(p *corev1.Pod) { p.Spec.NodeName = "admiralty-c3" },
		"of another UID":     func(p *corev1.Pod) { p.UID = "another" },
		"that do not run":    func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
		"that are not there": func(p *corev1.Pod) { p.Name = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.report(time.Hour, "app 1 1Mi")
			pod := proxyPod("app")
			change(pod)
			w.meter.options.Proxies = fake.NewClientBuilder().WithObjects(pod).Build()
			if node := w.read(t); len(node.Pods) != 0 || w.asked.Load() != 0 {
				t.Errorf("got %+v, asked %d times", node.Pods, w.asked.Load())
			}
		})
	}
}

func TestATargetThatGivesNoNumbersSaysWhy(t *testing.T) {
	endless := `{"items":[{"x":"` + strings.Repeat("x", maxBytes)
	for name, test := range map[string]struct {
		code   int
		answer string
		says   string
		again  time.Duration
	}{
		"no metrics API":      {http.StatusNotFound, `{}`, "install metrics-server", pause},
		"no metrics-server":   {http.StatusServiceUnavailable, `{}`, "install metrics-server", pause},
		"no right":            {http.StatusForbidden, `{}`, "may not list pods.metrics.k8s.io", resolution},
		"another error":       {http.StatusTeapot, `{}`, "status 418", resolution},
		"something else":      {http.StatusOK, `[]`, "decoding", resolution},
		"an endless list":     {http.StatusOK, endless, "decoding", resolution},
		"a time that is none": {http.StatusOK, `{"items":[{"timestamp":"x"}]}`, "decoding", resolution},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.report(time.Hour, "app 1 1Mi")
			w.read(t)
			good := w.answer
			w.code, w.answer = test.code, test.answer
			node := w.later(t, resolution)
			if node.Failed == nil || !strings.Contains(node.Failed.Error(), test.says) {
				t.Errorf("failed: %v", node.Failed)
			}
			if len(node.Pods) != 1 {
				t.Errorf("the last numbers are of the last seconds, and are gone: %+v", node.Pods)
			}
			w.later(t, test.again-time.Second)
			if w.asked.Load() != 2 {
				t.Errorf("asked %d times", w.asked.Load())
			}
			if node := w.later(t, stale); len(node.Pods) != 0 || node.Usage != nil {
				t.Errorf("got %+v, %+v", node.Pods, node.Usage)
			}
			w.code, w.answer = http.StatusOK, good
			if node := w.later(t, pause); len(node.Pods) != 1 || node.Failed != nil {
				t.Errorf("got %+v, %v", node.Pods, node.Failed)
			}
		})
	}
}
