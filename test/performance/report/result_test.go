package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentiles(t *testing.T) {
	upTo := func(n int) []time.Duration {
		var latencies []time.Duration
		for i := n; i > 0; i-- {
			latencies = append(latencies, time.Duration(i)*time.Second)
		}
		return latencies
	}
	for name, test := range map[string]struct {
		latencies     []time.Duration
		p50, p90, p99 float64
	}{
		"no latency":                               {nil, 0, 0, 0},
		"one latency":                              {upTo(1), 1, 1, 1},
		"ten latencies, in descending order":       {upTo(10), 5, 9, 9},
		"a hundred latencies, in descending order": {upTo(100), 50, 90, 99},
	} {
		t.Run(name, func(t *testing.T) {
			if p50, p90, p99 := Percentiles(test.latencies); p50 != test.p50 || p90 != test.p90 || p99 != test.p99 {
				t.Errorf("got %v, %v, %v", p50, p90, p99)
			}
		})
	}
}

func TestMediansMergeOnlyMeasurementsOfTheSameKind(t *testing.T) {
	one := func(pods int, rate float64) Result {
		return Result{
			Scenario: Burst, Kind: Plain, Targets: 1, Pods: pods, PodsPerSecond: rate, WritesPerPod: rate / 10,
		}
	}
	got := Medians([]Result{one(100, 30), one(500, 7), one(100, 10), one(100, 20), one(500, 9)})
	if diff := cmp.Diff([]Result{one(100, 20), one(500, 8)}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseMemoryReadsTheKernelsFormat(t *testing.T) {
	if mib, err := ParseMemory("Name:\ta\nVmHWM:\t  2048 kB\nVmRSS:\t 1024 kB\n", "VmHWM"); err != nil || mib != 2 {
		t.Errorf("ParseMemory: got %v MiB, %v, want 2", mib, err)
	}
	if _, err := ParseMemory("Name:\ta\n", "VmHWM"); err == nil {
		t.Error("ParseMemory of nothing: no error")
	}
}

func TestParseStatReadsNamesWithParentheses(t *testing.T) {
	name, seconds, err := ParseStat("17 (a (b) c) S 1 17 17 0 -1 4194560 1 2 3 4 250 50 7 8 20 0 1 0 100")
	if err != nil || name != "a (b) c" || seconds != 3 {
		t.Errorf("ParseStat: got %q, %v s, %v, want \"a (b) c\", 3 s", name, seconds, err)
	}
	if _, _, err := ParseStat("17 (a) S 1"); err == nil {
		t.Error("ParseStat of a short line: no error")
	}
}

func TestParseUsageReadsBothVersionsOfControlGroups(t *testing.T) {
	for usage, want := range map[string]float64{
		"1500000000\n": 1.5, "user_usec 10\nusage_usec 2500000\nsystem_usec 3\n": 2.5,
	} {
		if seconds, err := ParseUsage(usage); err != nil || seconds != want {
			t.Errorf("ParseUsage(%q): got %v s, %v, want %v s", usage, seconds, err, want)
		}
	}
	for _, usage := range []string{"", "user_usec 10\n", "many\n"} {
		if _, err := ParseUsage(usage); err == nil {
			t.Errorf("ParseUsage(%q): no error", usage)
		}
	}
}
