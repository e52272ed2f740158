package server

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/usage"
)

// metrics returns the metrics that metrics-server reads, under the names of kubelets.
func (s *Server) metrics() nodeHandler {
	return nodeHandler{[]string{"metrics"}, func(w http.ResponseWriter, r *http.Request, target *engage.Target) error {
		node, err := s.usage(r, target)
		if err != nil {
			return err
		}
		registry := prometheus.NewRegistry()
		if err := registry.Register(&resources{node}); err != nil {
			return newError(http.StatusInternalServerError, "Metrics cannot be collected: %v.", err)
		}
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
		return nil
	}}
}

// resources collects the metrics of a node.
type resources struct{ node *usage.Node }

// Describe describes nothing, so that nothing is checked: the metrics of a kubelet are known.
func (*resources) Describe(chan<- *prometheus.Desc) {}

// Collect returns all metrics.
func (c *resources) Collect(out chan<- prometheus.Metric) {
	send := func(at time.Time, kind prometheus.ValueType, value float64, name, help string, labels ...string) {
		var keys, values []string
		for i := 0; i < len(labels); i += 2 {
			keys, values = append(keys, labels[i]), append(values, labels[i+1])
		}
		metric, err := prometheus.NewConstMetric(prometheus.NewDesc(name, help, keys, nil), kind, value, values...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		} else if !at.IsZero() {
			metric = prometheus.NewMetricWithTimestamp(at, metric)
		}
		out <- metric
	}
	use := func(of usage.Usage, what string, labels ...string) {
		send(of.Time, prometheus.CounterValue, of.Seconds, what+"_cpu_usage_seconds_total",
			"CPU time since the start time, from rates of the target", labels...)
		send(of.Time, prometheus.GaugeValue, float64(of.Memory), what+"_memory_working_set_bytes",
			"Working set in bytes", labels...)
	}
	failed := 0.
	if c.node.Failed != nil {
		failed = 1
	}
	send(time.Time{}, prometheus.GaugeValue, failed, "resource_scrape_error", "1 if pods are missing, 0 otherwise")
	if c.node.Usage != nil {
		use(*c.node.Usage, "node")
	}
	for _, pod := range c.node.Pods {
		of := []string{"namespace", pod.Key.Namespace, "pod", pod.Key.Name}
		use(pod.Sum(), "pod", of...)
		for name, container := range pod.Containers {
			use(container, "container", append([]string{"container", name}, of...)...)
			send(time.Time{}, prometheus.GaugeValue, float64(container.Begun.UnixNano())/1e9,
				"container_start_time_seconds", "Time since which the CPU time of the container is counted",
				append([]string{"container", name}, of...)...)
		}
	}
}

// summary returns the same numbers in the older form, which has more fields with kubelets.
func (s *Server) summary() nodeHandler {
	return nodeHandler{[]string{"stats"}, func(w http.ResponseWriter, r *http.Request, target *engage.Target) error {
		node, err := s.usage(r, target)
		if err == nil {
			writeJSON(w, r, summaryOf(target.NodeName, node))
		}
		return err
	}}
}

func summaryOf(nodeName string, node *usage.Node) *stats.Summary {
	summary := &stats.Summary{Node: stats.NodeStats{NodeName: nodeName}, Pods: []stats.PodStats{}}
	if node.Usage != nil {
		summary.Node.StartTime = metav1.NewTime(node.Usage.Begun)
		summary.Node.CPU, summary.Node.Memory = cpuStats(*node.Usage), memoryStats(*node.Usage)
	}
	for _, pod := range node.Pods {
		sum := pod.Sum()
		one := stats.PodStats{
			PodRef:    stats.PodReference{Namespace: pod.Key.Namespace, Name: pod.Key.Name, UID: string(pod.UID)},
			StartTime: metav1.NewTime(sum.Begun),
			CPU:       cpuStats(sum),
			Memory:    memoryStats(sum),
		}
		for name, container := range pod.Containers {
			one.Containers = append(one.Containers, stats.ContainerStats{
				Name: name, StartTime: metav1.NewTime(container.Begun),
				CPU: cpuStats(container), Memory: memoryStats(container),
			})
		}
		summary.Pods = append(summary.Pods, one)
	}
	return summary
}

func cpuStats(of usage.Usage) *stats.CPUStats {
	return &stats.CPUStats{
		Time:                 metav1.NewTime(of.Time),
		UsageNanoCores:       new(uint64(of.Cores * 1e9)),
		UsageCoreNanoSeconds: new(uint64(of.Seconds * 1e9)),
	}
}

func memoryStats(of usage.Usage) *stats.MemoryStats {
	return &stats.MemoryStats{Time: metav1.NewTime(of.Time), WorkingSetBytes: new(of.Memory)}
}
