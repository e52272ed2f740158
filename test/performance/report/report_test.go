package report

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden file")

func TestTheReportEqualsTheGoldenFile(t *testing.T) {
	const golden = "testdata/report.md"
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	got := &bytes.Buffer{}
	err := Render(got, Report{
		Title: "Performance report", Command: "performance -pods 100", Time: at, Took: 90 * time.Second,
		Environment: Environment{
			CPU: "A processor", Cores: 2, MemoryGiB: 23.6, Kernel: "6.1", Load: "0.10",
			Kubernetes: "v1.2.3", Etcd: "3.2.1", Kwok: "v0.1.0", Product: "v0.0.1", Go: "go1.2", Nodes: 30,
		},
		Results: measurements(),
		Further: []string{"again-1 to c2", "again-2 to c1"},
		Memory:  &Memory{Targets: 100, Proxies: 10000, SteadyMiB: 200, PeakMiB: 250, Version: "v0.0.1", Time: at},
		Following: &Memory{
			Targets: 10, Proxies: 10000, SteadyMiB: 300, PeakMiB: 350, Version: "v0.0.1", Time: at, IdleCPU: 1.5,
			First: Start{CPU: 90}, Again: Start{CPU: 20},
			Following: &Following{
				ConfigMaps: 2000, Secrets: 1000, Services: 500,
				Copies: map[string]int{"configmaps": 10000, "podchaperons": 10000, "secrets": 5000, "services": 5010},
			},
			Changes: []Traffic{{What: "an endpoint changes", Requests: 20, Sent: 1000, Received: 2000, CPU: 0.25}},
		},
		Streams: &Streams{
			Time: at, Version: "v0.0.1", Loads: [2]string{"0.10", "2.50"}, MB: 100,
			Kinds: []Stream{
				{Kind: "exec", Virtual: []float64{80, 90, 10}, Directly: []float64{100, 100, 100}},
				{Kind: "attach", Virtual: []float64{69, 69, 69}, Directly: []float64{99, 100, 101}},
			},
			Limited: []LimitedStreams{{Mbit: 100, Kinds: []Stream{
				{Kind: "exec", Virtual: []float64{11, 11, 11}, Directly: []float64{11.5, 11.5, 11.5}},
			}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("the report (-want +got); if the difference is intended, run go test -update:\n%s", diff)
	}
}

func TestAReportWithoutMeasurementsRenders(t *testing.T) {
	if err := Render(&bytes.Buffer{}, Report{}); err != nil {
		t.Error(err)
	}
}

func measurements() []Result {
	plain := Result{
		Scenario: Burst, Kind: Plain, Targets: 1, Pods: 100, PodsPerSecond: 100,
		P50Seconds: .4, P90Seconds: .45, P99Seconds: .5,
		WritesPerPod: 4, SourceWrites: 4, CPUSeconds: .02, DeleteSeconds: 1, ManagerCPUSeconds: .1, ManagerPeakMiB: 80,
		CPUByProgram:     map[string]float64{"etcd": .004, "API servers": .016},
		CPUByCluster:     map[string]float64{"c1": .015, "c2": 0},
		IdleCPUByCluster: map[string]float64{"c1": .06, "c2": .05},
		WritesByResource: map[string]float64{"c1 POST pods": 1, "c1 PATCH nodes": .001},
	}
	elected := Result{
		Scenario: Burst, Kind: Elected, Targets: 1, Pods: 100, PodsPerSecond: 60,
		P50Seconds: 1, P90Seconds: 1.2, P99Seconds: 1.4,
		WritesPerPod: 11, SourceWrites: 4, CPUSeconds: .05, DeleteSeconds: 3.5,
		ManagerCPUSeconds: .9, ManagerPeakMiB: 120,
		CPUByProgram:     map[string]float64{"etcd": .01, "manager": .04},
		CPUByCluster:     map[string]float64{"c1": .02, "c2": .03},
		WritesByResource: map[string]float64{"c1 POST pods": 1, "c2 POST pods": 1},
	}
	again, three := elected, elected
	again.PodsPerSecond, again.P99Seconds = 70, 1.2
	three.Targets, three.PodsPerSecond, three.SourceWrites, three.SourceIsTarget, three.RetriedPods = 3, 40, 7, true, 2
	results := []Result{plain, elected, again, three}
	for _, scenario := range []string{Alone, Light, Churn, Drain} {
		for _, r := range []Result{plain, elected} {
			r.Scenario, r.EvictionsPerSecond, r.NeverRan = scenario, 50, 1
			results = append(results, r)
		}
	}
	for _, phase := range []struct {
		variant string
		p99     float64
	}{{Healthy, 1}, {JustCut, 1.1}, {FoundOut, .9}, {HealthyAgain, 1}} {
		results = append(results, Result{
			Scenario: Blackhole, Kind: Elected, Variant: phase.variant, Targets: 10, Pods: 300,
			P99Seconds: phase.p99, PodsPerSecond: 30,
		})
	}
	return append(results, changed()...)
}

func changed() []Result {
	var results []Result
	for _, scenario := range []string{Labels, InPlace, Rollout} {
		for _, kind := range []string{Plain, Elected, Elected, Elected} {
			n := float64(len(results) + 1)
			r := Result{
				Scenario: scenario, Kind: kind, Targets: 1, Pods: 50, P50Seconds: n / 100, P99Seconds: n / 10,
				CompleteSeconds: n, DeleteSeconds: n + 1, SourceWrites: 1,
				WritesByResource: map[string]float64{"c1 PATCH pods": 1, "c1 PATCH nodes": .01},
			}
			if kind == Elected {
				r.TargetWrites = n
				r.WritesByResource["c2 PATCH podchaperons"] = n
			}
			if scenario == InPlace {
				r.Variant = Image
			}
			if scenario == InPlace && kind == Elected {
				r.Steps = []Step{{Name: StepReached, P50Seconds: n / 1000, P99Seconds: n / 500}}
			}
			results = append(results, r)
		}
	}
	return results
}
