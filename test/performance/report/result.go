package report

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Scenarios: the values of Result.Scenario.
const (
	Burst     = "burst"      // all pods at once
	Alone     = "alone"      // one pod after the other
	Light     = "light-load" // a pod every 200 ms
	Blackhole = "black-hole" // a burst on ten targets, one of which does not answer
	Churn     = "churn"      // 20 pods per second, each deleted after ten seconds
	Drain     = "drain"      // all pods at once, and then all are evicted
	Feedback  = "feedback"   // the statuses of delegates change
	Labels    = "labels"     // the labels of running pods change
	InPlace   = "in-place"   // the containers of running pods change
	Rollout   = "rollout"    // the image of a Deployment changes
)

// Kinds of pods: the values of Result.Kind.
const (
	Plain   = "plain"
	Elected = "elected"
)

// Variants of the scenario Blackhole, in the order in which they are measured.
const (
	Healthy      = "all ten answer"
	JustCut      = "one was just cut off"
	FoundOut     = "it is known to be unreachable"
	HealthyAgain = "all ten answer again"
)

// Variants of the scenarios Feedback and Labels, and those of InPlace.
const (
	OneByOne = "one after the other"
	AtOnce   = "all at once"
	Image    = "image"
	Resize   = "resize"
)

// The steps of a change of an elected pod, as watches show them.
const (
	StepReached = "requested → the delegate is to be so"
	StepDone    = "→ the delegate's status"
	StepShown   = "→ the proxy's status"
)

// Step is a part of a change's latency.
type Step struct {
	Name       string  `json:"name"`
	P50Seconds float64 `json:"p50_seconds"`
	P99Seconds float64 `json:"p99_seconds"`
}

// Result is one measurement, as in the results file. Other programs read that file, so the JSON names stay as they are.
type Result struct {
	Label         string  `json:"label"`
	Scenario      string  `json:"scenario"`
	Variant       string  `json:"variant,omitempty"`
	Kind          string  `json:"kind"`
	Targets       int     `json:"targets"`
	Pods          int     `json:"pods"`
	PodsPerSecond float64 `json:"pods_per_second"`
	// The latencies are those from the creation to Running, or those of the changes.
	P50Seconds     float64 `json:"p50_seconds"`
	P90Seconds     float64 `json:"p90_seconds"`
	P99Seconds     float64 `json:"p99_seconds"`
	WritesPerPod   float64 `json:"writes_per_pod"`
	SourceWrites   float64 `json:"source_writes_per_pod"`
	TargetWrites   float64 `json:"target_writes_per_pod"` // of the targets that are not the source
	SourceIsTarget bool    `json:"source_is_target"`      // SourceWrites includes the source's writes as a target
	CPUSeconds     float64 `json:"cpu_seconds_per_pod"`
	// CPUByCluster has everything in the control group of a cluster, also containers and their runtime, less what the
	// cluster takes without pods: IdleCPUByCluster, in seconds per second.
	CPUByCluster     map[string]float64 `json:"cpu_seconds_per_pod_by_cluster,omitempty"`
	IdleCPUByCluster map[string]float64 `json:"idle_cpu_seconds_per_second_by_cluster,omitempty"`
	// SourceCPUSeconds and TargetCPUSeconds are of the source, and of the targets that are not the source, as
	// CPUByCluster has them.
	SourceCPUSeconds float64 `json:"source_cpu_seconds_per_pod"`
	TargetCPUSeconds float64 `json:"target_cpu_seconds_per_pod"`
	DeleteSeconds    float64 `json:"delete_seconds"`
	// ManagerCPUSeconds and ManagerPeakMiB are of the source's leader, from before the first pod until all pods run.
	ManagerCPUSeconds  float64            `json:"manager_cpu_seconds"`
	ManagerPeakMiB     float64            `json:"manager_peak_mib"`
	RetriedPods        int                `json:"retried_pods"`         // were refused or fitted nowhere, at least once
	NeverRan           int                `json:"never_ran"`            // were deleted before they ran
	EvictionsPerSecond float64            `json:"evictions_per_second"` // accepted ones
	CPUByProgram       map[string]float64 `json:"cpu_seconds_per_pod_by_program"`
	WritesByResource   map[string]float64 `json:"writes_per_pod_by_resource"` // by "cluster VERB resource"
	Spread             map[string]int     `json:"pods_by_node,omitempty"`
	// CompleteSeconds is the time from the first request until all pods are changed. Steps are parts of the latency.
	CompleteSeconds float64 `json:"complete_seconds,omitempty"`
	Steps           []Step  `json:"steps,omitempty"`
	// Load is Linux's load average of the last minute, at the end of a change.
	Load float64   `json:"load,omitempty"`
	Time time.Time `json:"time"`
}

// Memory is the manager's memory with many targets and proxies.
type Memory struct {
	Targets   int       `json:"targets"`
	Proxies   int       `json:"proxies"`
	SteadyMiB float64   `json:"settled_mib"`
	PeakMiB   float64   `json:"peak_mib"`
	Version   string    `json:"version"`
	Time      time.Time `json:"time"`
	// Following is what follows the proxies, nil if nothing does.
	Following *Following `json:"following,omitempty"`
	// First and Again are the two starts of the manager: with everything to do, and with everything in place.
	First Start `json:"first"`
	Again Start `json:"again"`
	// IdleCPU is the manager's CPU time in a minute in which nothing changes.
	IdleCPU float64 `json:"idle_cpu_seconds"`
	// Changes are changes of what follows, and what they cost.
	Changes []Traffic `json:"changes,omitempty"`
}

// Following is how many objects follow proxies, as the source has them and as copies.
type Following struct {
	ConfigMaps int            `json:"config_maps"`
	Secrets    int            `json:"secrets"`
	Services   int            `json:"services"`
	Copies     map[string]int `json:"copies"` // by resource, in all targets together
}

// Start is what a start of the manager costs until everything is done.
type Start struct {
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu_seconds"`
	Requests int     `json:"requests"` // to targets
	// Kinds are the requests by verb and resource, as in "patch podchaperons".
	Kinds map[string]int `json:"kinds"`
}

// Traffic is what a change sends to targets, and receives from them.
type Traffic struct {
	What     string  `json:"what"`
	Requests int     `json:"requests"`
	Sent     int64   `json:"sent_bytes"`
	Received int64   `json:"received_bytes"` // by answers and watches
	CPU      float64 `json:"cpu_seconds"`    // of the manager
}

// Percentiles returns percentiles of the latencies, in seconds; zeros if there are no latencies.
func Percentiles(latencies []time.Duration) (p50, p90, p99 float64) {
	if len(latencies) == 0 {
		return 0, 0, 0
	}
	sorted := slices.Sorted(slices.Values(latencies))
	of := func(p int) float64 { return sorted[(len(sorted)-1)*p/100].Seconds() }
	return of(50), of(90), of(99)
}

type series struct {
	scenario, variant, kind string
	targets, pods           int
}

// Medians merges repeated measurements: of each figure it takes the median, and maps and counts from the first
// measurement. The order is that of the first measurements.
func Medians(results []Result) []Result {
	var medians []Result
	for _, group := range repeated(results) {
		medians = append(medians, median(group))
	}
	return medians
}

// repeated groups measurements that are equal but for their figures, in the order of the first ones.
func repeated(results []Result) [][]Result {
	var groups [][]Result
	indices := map[series]int{}
	for _, r := range results {
		key := series{r.Scenario, r.Variant, r.Kind, r.Targets, r.Pods}
		i, ok := indices[key]
		if !ok {
			i, groups = len(groups), append(groups, nil)
			indices[key] = i
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

func median(group []Result) Result {
	m := group[0]
	for _, figure := range []func(*Result) *float64{
		func(r *Result) *float64 { return &r.PodsPerSecond },
		func(r *Result) *float64 { return &r.P50Seconds },
		func(r *Result) *float64 { return &r.P90Seconds },
		func(r *Result) *float64 { return &r.P99Seconds },
		func(r *Result) *float64 { return &r.WritesPerPod },
		func(r *Result) *float64 { return &r.SourceWrites },
		func(r *Result) *float64 { return &r.CPUSeconds },
		func(r *Result) *float64 { return &r.SourceCPUSeconds },
		func(r *Result) *float64 { return &r.TargetCPUSeconds },
		func(r *Result) *float64 { return &r.DeleteSeconds },
		func(r *Result) *float64 { return &r.ManagerCPUSeconds },
		func(r *Result) *float64 { return &r.ManagerPeakMiB },
		func(r *Result) *float64 { return &r.EvictionsPerSecond },
	} {
		var values []float64
		for i := range group {
			values = append(values, *figure(&group[i]))
		}
		*figure(&m) = middleOf(values)
	}
	return m
}

// ofScenario returns the results of a scenario.
func ofScenario(results []Result, scenario string) []Result {
	var found []Result
	for _, r := range results {
		if r.Scenario == scenario {
			found = append(found, r)
		}
	}
	return found
}

// distinct returns the distinct values, in ascending order.
func distinct[T cmp.Ordered](results []Result, value func(Result) T) []T {
	set := map[T]bool{}
	for _, r := range results {
		set[value(r)] = true
	}
	return slices.Sorted(maps.Keys(set))
}
