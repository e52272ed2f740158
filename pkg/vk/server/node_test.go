package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

const metricsPath = "/metrics/nodes/" + nodeName + "/metrics/resource"

func TestAccessToNodes(t *testing.T) {
	f := newFixture(t, func(http.ResponseWriter, *http.Request) {}, everyone())
	close(f.leads)
	for name, test := range map[string]struct {
		path, token string
		code        int
		says        string
	}{
		"nodes/metrics is enough for metrics":   {metricsPath, "meter", 200, "node_cpu_usage_seconds_total"},
		"the only node needs no name":           {"/metrics/resource", "meter", 200, "node_cpu_usage_seconds_total"},
		"nodes/proxy is not enough for metrics": {metricsPath, "admin", 403, "subresource(s)=[metrics])"},
		"metrics take a login":                  {metricsPath, "", 401, "Unauthorized"},
		"a node without a target is reported": {
			"/metrics/nodes/admiralty-c3/metrics/resource", "meter", 503, "not connected",
		},
		"nodes/stats is enough for the summary": {"/stats/summary", "stats", 200, `"nodeName":"admiralty-c2"`},
		"nodes/metrics is not enough for it":    {"/stats/summary", "meter", 403, "subresource(s)=[stats])"},
		"nodes/pods is enough for pods":         {"/pods", "pods", 200, `"kind":"PodList"`},
		"nodes/proxy is enough for pods":        {"/pods/nodes/" + nodeName, "admin", 200, `"kind":"PodList"`},
		"nodes/log is not enough for pods":      {"/pods", "logs", 403, "subresource(s)=[pods proxy])"},
		"nodes/healthz is enough for health":    {"/healthz", "health", 200, "ok"},
		"nodes/log is not enough for health":    {"/healthz", "logs", 403, "subresource(s)=[healthz proxy])"},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := f.request(t, "GET", test.path, test.token)
			if code != test.code || !strings.Contains(body, test.says) {
				t.Errorf("answer %d %q, want %d %q", code, body, test.code, test.says)
			}
		})
	}
}

func TestMetricsAreThoseOfAKubelet(t *testing.T) {
	f := newFixture(t, func(http.ResponseWriter, *http.Request) {}, everyone())
	close(f.leads)
	_, body := f.request(t, "GET", metricsPath, "meter")
	const pod = `namespace="default",pod="web"`
	want := []string{
		`container_cpu_usage_seconds_total{container="app",` + pod + `} 1.501 1000000`,
		`container_memory_working_set_bytes{container="app",` + pod + `} 1.048576e+06 1000000`,
		`container_start_time_seconds{container="app",` + pod + `} 999`,
		`node_cpu_usage_seconds_total 1.501 1000000`,
		`node_memory_working_set_bytes 1.048576e+06 1000000`,
		`pod_cpu_usage_seconds_total{` + pod + `} 1.501 1000000`,
		`pod_memory_working_set_bytes{` + pod + `} 1.048576e+06 1000000`,
		`resource_scrape_error 0`,
	}
	var got []string
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "#") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestTheSummaryHasTheSameNumbers(t *testing.T) {
	f := newFixture(t, func(http.ResponseWriter, *http.Request) {}, everyone())
	close(f.leads)
	_, body := f.request(t, "GET", "/stats/nodes/"+nodeName+"/summary", "stats")
	got := stats.Summary{}
	if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Pods) != 1 || len(got.Pods[0].Containers) != 1 {
		t.Fatalf("got %s, %v", body, err)
	}
	for name, cpu := range map[string]*stats.CPUStats{
		"node": got.Node.CPU, "pod": got.Pods[0].CPU, "container": got.Pods[0].Containers[0].CPU,
	} {
		if *cpu.UsageNanoCores != 15e8 || *cpu.UsageCoreNanoSeconds != 1501e6 {
			t.Errorf("CPU of the %s: %+v", name, cpu)
		}
	}
	if got := *got.Pods[0].Memory.WorkingSetBytes; got != 1<<20 {
		t.Errorf("%d bytes", got)
	}
}

func TestPodsOfANodeAreItsProxies(t *testing.T) {
	f := newFixture(t, func(http.ResponseWriter, *http.Request) {}, everyone())
	_, body := f.request(t, "GET", "/pods", "pods")
	list := corev1.PodList{}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pod := range list.Items {
		names = append(names, pod.Name)
	}
	if diff := cmp.Diff([]string{"forged", "lost", "web"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestOneOfSeveralNodesNeedsAName(t *testing.T) {
	f := newFixture(t, func(http.ResponseWriter, *http.Request) {}, everyone())
	close(f.leads)
	other := &engage.Target{Key: types.NamespacedName{Name: "c3"}, NodeName: "admiralty-c3"}
	if err := f.registry.Engage(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	code, body := f.request(t, "GET", "/metrics/resource", "meter")
	if code != http.StatusNotFound || !strings.Contains(body, "/metrics/nodes/NAME/metrics/resource") {
		t.Errorf("answer %d %q", code, body)
	}
	if code, body := f.request(t, "GET", metricsPath, "meter"); code != http.StatusOK {
		t.Errorf("answer %d %q", code, body)
	}
}

func TestOnlyTheLeaderMeasures(t *testing.T) {
	f := newFixture(t, func(http.ResponseWriter, *http.Request) {}, everyone())
	if code, body := f.request(t, "GET", metricsPath, "meter"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "does not lead") {
		t.Errorf("answer %d %q", code, body)
	}
}
