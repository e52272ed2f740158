package fit

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// fifty classes of nodes with twenty labels and five vectors each, as small, as many as a summary tells.
func fifty() *v1alpha1.ClusterSummary {
	classes := make([]nodes, 50)
	for i := range classes {
		classes[i] = free(
			20,
			fmt.Sprintf("pods=%d cpu=%d memory=%dGi ephemeral-storage=100Gi nvidia.com/gpu=4", 100-i, 4+i%8, 64-i),
		)
		for j := range int32(4) {
			classes[i] = classes[i].and(
				20,
				fmt.Sprintf("pods=50 cpu=%d memory=%dGi ephemeral-storage=90Gi", 3+j, 32+8*j),
			)
		}
		classes[i] = classes[i].labels("zone="+fmt.Sprint(i%3), "type="+fmt.Sprint(i), "gpu="+fmt.Sprint(i%2 == 1))
		for j := range 15 {
			classes[i].Labels[fmt.Sprint("example.com/label-", j)] = fmt.Sprint("value-", i*j%7)
		}
	}
	summary := summaryOf(classes...)
	summary.Status.CommonLabels["kubernetes.io/arch"] = "amd64"
	return summary
}

func BenchmarkChoose100TargetsOf50Classes(b *testing.B) {
	selective := selects("kubernetes.io/os=linux", "gpu=true")
	selective.Affinity = needs(all(expression("zone", "In", "0", "1"), expression("type", "Gt", "20"))).Affinity
	selective.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Exists"}}
	for name, test := range map[string]struct {
		pod        string
		of         translate.Constraints
		forgetting bool
	}{
		"the first class fits":                 {pod: "cpu=1 memory=1Gi"},
		"no class fits":                        {pod: "cpu=64 memory=1Gi"},
		"each resource fits, but not together": {pod: "cpu=11 memory=64Gi"},
		"with selectors, the first time":       {"cpu=1 memory=1Gi", selective, true},
		"with selectors, remembered":           {"cpu=1 memory=1Gi", selective, false},
	} {
		rooms := make([]*Room, 100)
		for i := range rooms {
			rooms[i] = NewRoom(fifty(), nil)
		}
		b.Run(name, func(b *testing.B) {
			d := demands(test.pod, test.of)
			b.ReportAllocs()
			for b.Loop() {
				for _, r := range rooms {
					if test.forgetting {
						clear(r.shape.matches)
					}
					r.Fits(d)
				}
			}
		})
	}
}

func BenchmarkExplainOf50Classes(b *testing.B) {
	r, d := NewRoom(fifty(), nil), demands("cpu=64 memory=1Gi", selects("gpu=true"))
	b.ReportAllocs()
	for b.Loop() {
		r.Explain(d)
	}
}

func BenchmarkNewDemand(b *testing.B) {
	of := selects("kubernetes.io/os=linux", "gpu=true")
	of.Affinity = needs(all(expression("zone", "In", "0", "1"))).Affinity
	pod := asks("cpu=1 memory=1Gi")
	b.ReportAllocs()
	for b.Loop() {
		NewDemand(pod, of)
	}
}

func BenchmarkNewRoom(b *testing.B) {
	summary := fifty()
	for name, previous := range map[string]*Room{"other labels": nil, "the same labels": NewRoom(fifty(), nil)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewRoom(summary, previous)
			}
		})
	}
}

func BenchmarkWith(b *testing.B) {
	r, d := NewRoom(fifty(), nil), demands("cpu=1 memory=1Gi", translate.Constraints{})
	b.ReportAllocs()
	for b.Loop() {
		r.With(d)
	}
}

func BenchmarkRoomier(b *testing.B) {
	r, other := NewRoom(fifty(), nil), NewRoom(fifty(), nil)
	b.ReportAllocs()
	for b.Loop() {
		r.Roomier(other)
	}
}
