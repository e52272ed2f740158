package capacity

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	benchNodes = 5_000
	benchPods  = 150_000
)

func BenchmarkPodEvent(b *testing.B) {
	a := newBenchmark(1).account()
	p := pod("new", "7", "100m", "32Mi", of("s1"))
	b.ReportAllocs()
	start := cpuTime(b)
	for b.Loop() {
		a.setPod(p)
		a.removePod(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N)/1e6, "cpu-ms/op")
}

// BenchmarkPodEventAndSummary measures one pod that comes or goes, and the summary, for clusters of one and many
// classes.
func BenchmarkPodEventAndSummary(b *testing.B) {
	for name, bench := range benchmarks() {
		b.Run(name, func(b *testing.B) {
			a := bench.account()
			b.ReportAllocs()
			i, start := 0, cpuTime(b)
			for b.Loop() {
				if i++; i%2 == 0 {
					a.setPod(pod("new", fmt.Sprint(i/2%benchNodes), "100m", "32Mi", of("s1")))
				} else {
					a.removePod(types.NamespacedName{Namespace: "default", Name: "new"})
				}
				a.summary()
			}
			b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N)/1e6, "cpu-ms/op")
			report(b, a)
		})
	}
}

// BenchmarkNodeEventAndSummary measures a change of a node's label, after which nodes are classified again.
func BenchmarkNodeEventAndSummary(b *testing.B) {
	for name, bench := range benchmarks() {
		b.Run(name, func(b *testing.B) {
			a := bench.account()
			a.summary()
			b.ReportAllocs()
			i, start := 0, cpuTime(b)
			for b.Loop() {
				i++
				a.setNode(bench.node(0, label("changed", fmt.Sprint(i))))
				a.summary()
			}
			b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N)/1e6, "cpu-ms/op")
		})
	}
}

func benchmarks() map[string]benchmark {
	unique := newBenchmark(50)
	unique.uniqueLabel = true
	return map[string]benchmark{
		"1 class":    newBenchmark(1),
		"50 classes": newBenchmark(50),
		"50 classes and a label with a value of its own on each node": unique,
	}
}

// benchmark is a cluster of nodes of several sizes, more or less full.
type benchmark struct {
	classes     int
	uniqueLabel bool
}

func newBenchmark(classes int) benchmark { return benchmark{classes: classes} }

func (bench benchmark) account() *account {
	random := rand.New(rand.NewPCG(1, 2))
	a := newAccount(nil)
	for i := range benchNodes {
		a.setNode(bench.node(i))
	}
	for i := range benchPods {
		nodeName, cpu := fmt.Sprint(random.IntN(benchNodes)), fmt.Sprintf("%dm", 50*(1+random.IntN(20)))
		a.setPod(pod(fmt.Sprint(i), nodeName, cpu, fmt.Sprint(64*(1+random.IntN(32)), "Mi"),
			of([]string{"", "s1", "s2"}[i%3])))
	}
	return a
}

func (bench benchmark) node(i int, changes ...func(*corev1.Node)) *corev1.Node {
	name, class := fmt.Sprint(i), i%bench.classes
	n := node(name, fmt.Sprint(32*(1+class%3)), fmt.Sprint(128*(1+class%3), "Gi"), changes...)
	for key := range 20 {
		n.Labels[fmt.Sprintf("example.com/label-%d", key)] = "value"
	}
	n.Labels[corev1.LabelHostname], n.Labels["class"], n.Labels["zone"] = name, fmt.Sprint(class), fmt.Sprint(class%3)
	if bench.uniqueLabel {
		n.Labels["example.com/instance-id"] = name
	}
	n.Status.Allocatable[corev1.ResourceEphemeralStorage] = resource.MustParse("100Gi")
	n.Status.Allocatable["hugepages-2Mi"] = resource.MustParse("0")
	if class%5 == 4 {
		n.Status.Allocatable["example.com/gpu"] = resource.MustParse("8")
	}
	return n
}

// cpuTime returns the CPU time of this process, on which other processes have little influence.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// report reports the size of the summary, and the share of the free CPU and memory that it lists.
func report(b *testing.B, a *account) {
	b.Helper()
	summary := a.summary()
	data, err := json.Marshal(summary)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(data)), "bytes")
	b.ReportMetric(float64(vectors(summary)), "vectors")
	b.ReportMetric(100*listedOf(summary, a, corev1.ResourceCPU), "%cpu-listed")
	b.ReportMetric(100*listedOf(summary, a, corev1.ResourceMemory), "%memory-listed")
}

func listedOf(summary *v1alpha1.ClusterSummary, a *account, name corev1.ResourceName) float64 {
	var listed, free float64
	for _, class := range summary.Status.Classes {
		for _, f := range class.Free {
			quantity := f.Resources[name]
			listed += float64(f.Nodes) * quantity.AsApproximateFloat64()
		}
	}
	place := a.resources.places[name]
	for _, n := range a.nodes {
		q := quantity(name, max(0, n.allocatable.at(place)-n.requested.at(place)))
		free += q.AsApproximateFloat64()
	}
	return listed / free
}
