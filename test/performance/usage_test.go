package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

func TestParseWritesCountsWritesThatAreStored(t *testing.T) {
	got, err := parseWrites([]byte(`# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 10
apiserver_request_total{code="409",resource="pods",subresource="",verb="POST"} 1
apiserver_request_total{code="200",resource="pods",subresource="status",verb="PATCH"} 20
apiserver_request_total{code="200",resource="pods",subresource="",verb="GET"} 99
apiserver_request_total{code="200",resource="leases",subresource="",verb="PUT"} 99
apiserver_request_total{code="201",resource="subjectaccessreviews",subresource="",verb="POST"} 99
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"POST pods": 11, "PATCH pods/status": 20}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parseWrites (-want +got):\n%s", diff)
	}
}

func TestControlGroupsNameTheirCheckout(t *testing.T) {
	for groups, want := range map[string]string{
		"7:pids:/multicluster-scheduler-4/c2/components\n6:cpu:/other\n": "multicluster-scheduler-4",
		"0::/multicluster-scheduler/c1/kubepods/pod1":                    "multicluster-scheduler",
		"0::/init.scope": "init.scope",
		"":               "",
	} {
		if got := parseGroup(groups); got != want {
			t.Errorf("parseGroup(%q): got %q, want %q", groups, got, want)
		}
	}
}

func TestUsageIsADifferencePerPod(t *testing.T) {
	got := report.Result{Pods: 10}
	idle := map[string]float64{"c1": 2, "c3": 4} // In 2 s, c3 took less than it takes without pods.
	cpu{
		programs: map[string]float64{"etcd": 5, "kwok": 1},
		clusters: map[string]float64{"c1": 8, "c2": 3, "c3": 1},
		leader:   3,
	}.since(cpu{
		programs: map[string]float64{"etcd": 4, "kwok": 2}, clusters: map[string]float64{"c1": 3, "c2": 1}, leader: 1,
	}).perPod(&got, []string{"c1", "c2"}, idle, 2*time.Second)
	writes{"c1": {"POST pods": 30, "PUT nodes": 5}, "c2": {"POST pods": 10}}.
		since(writes{"c1": {"POST pods": 10, "PUT nodes": 5}}).perPod(&got, []string{"c1", "c2"})
	want := report.Result{
		Pods: 10, CPUSeconds: .1, SourceCPUSeconds: .1, TargetCPUSeconds: .2, ManagerCPUSeconds: 2,
		CPUByProgram: map[string]float64{"etcd": .1, "kwok": 0},
		CPUByCluster: map[string]float64{"c1": .1, "c2": .2, "c3": 0}, IdleCPUByCluster: idle,
		WritesPerPod: 3, SourceWrites: 2, TargetWrites: 1,
		WritesByResource: map[string]float64{"c1 POST pods": 2, "c2 POST pods": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCPUModelAndVersions(t *testing.T) {
	if got := cpuModel("processor\t: 0\nmodel name\t: A B\n"); got != "A B" {
		t.Errorf("cpuModel: got %q", got)
	}
	for output, want := range map[string]string{
		"kwok version v0.8.0 go1.26":      "v0.8.0",
		"etcd Version: 3.7.0\nGit SHA: x": "3.7.0",
		"":                                "of unknown version",
		"version":                         "of unknown version",
	} {
		if got := versionIn(output); got != want {
			t.Errorf("versionIn(%q): got %q, want %q", output, got, want)
		}
	}
}
