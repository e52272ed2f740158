package report

import (
	"strings"
	"testing"
	"time"
)

func TestBudgetsAreComparedWithTheMeasurements(t *testing.T) {
	burst := func(kind string, targets, pods int, change func(*Result)) Result {
		r := Result{Scenario: Burst, Kind: kind, Targets: targets, Pods: pods}
		change(&r)
		return r
	}
	rate := func(v float64) func(*Result) { return func(r *Result) { r.PodsPerSecond = v } }
	writes := func(v float64) func(*Result) { return func(r *Result) { r.WritesPerPod = v } }
	inSource := func(v float64, target bool) func(*Result) {
		return func(r *Result) { r.SourceWrites, r.SourceIsTarget = v, target }
	}
	inTarget := func(v float64) func(*Result) { return func(r *Result) { r.TargetCPUSeconds = v } }
	cpu := func(source float64) func(*Result) { return func(r *Result) { r.SourceCPUSeconds = source } }
	deletion := func(v float64) func(*Result) { return func(r *Result) { r.DeleteSeconds = v } }
	for name, test := range map[string]struct {
		what     string
		results  []Result
		state    string
		measured map[int]string
	}{
		"0.38 times as fast as plain pods is enough": {
			"pods/s, 100", []Result{burst(Plain, 1, 100, rate(100)), burst(Elected, 1, 100, rate(38))},
			reached, map[int]string{1: "38 (0.38 ×)"},
		},
		"one number of targets beyond the budget misses it": {
			"pods/s, 100",
			[]Result{
				burst(Plain, 1, 100, rate(100)), burst(Elected, 1, 100, rate(70)), burst(Elected, 3, 100, rate(30)),
			},
			notReached, map[int]string{1: "70 (0.70 ×)", 3: "**30 (0.30 ×)**"},
		},
		"other numbers of pods do not count": {
			"pods/s, 500", []Result{burst(Plain, 1, 100, rate(100)), burst(Elected, 1, 100, rate(50))},
			notMeasured, nil,
		},
		"without plain pods, a relative budget is not measured": {
			"pods/s, 100", []Result{burst(Elected, 1, 100, rate(50))}, notMeasured, nil,
		},
		"an absolute budget needs no plain pods, and the worst number of pods counts": {
			"API writes", []Result{burst(Elected, 1, 100, writes(11)), burst(Elected, 1, 500, writes(12.5))},
			notReached, map[int]string{1: "**12.5**"},
		},
		"writes of a source that is a target do not count": {
			"of these in the source",
			[]Result{burst(Elected, 1, 100, inSource(4, false)), burst(Elected, 3, 100, inSource(7, true))},
			reached, map[int]string{1: "4.0", 3: ""},
		},
		"the CPU in the target is compared with plain pods in the source": {
			"CPU of the target",
			[]Result{burst(Plain, 1, 500, cpu(0.02)), burst(Elected, 1, 500, inTarget(0.03))},
			reached, map[int]string{1: "30 ms (1.50 ×)"},
		},
		"1.5 times the CPU of plain pods is too much in the source": {
			"CPU of the source", []Result{burst(Plain, 1, 500, cpu(0.02)), burst(Elected, 1, 500, cpu(0.03))},
			notReached, map[int]string{1: "**30 ms (1.50 ×)**"},
		},
		"three times as long as plain pods is too long": {
			"deleting", []Result{burst(Plain, 1, 100, deletion(1)), burst(Elected, 1, 100, deletion(3))},
			notReached, map[int]string{1: "**3.0 s (3.00 ×)**"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, b := range Budgets(test.results) {
				if !strings.HasPrefix(b.What, test.what) {
					continue
				}
				if b.State != test.state {
					t.Errorf("%s: %s, want %s", b.What, b.State, test.state)
				}
				for targets, want := range test.measured {
					if b.Measured[targets] != want {
						t.Errorf("%s, %d targets: %q, want %q", b.What, targets, b.Measured[targets], want)
					}
				}
				return
			}
			t.Errorf("no budget begins with %q", test.what)
		})
	}
}

func TestABlackHoleMustNotSlowPodsForOtherTargets(t *testing.T) {
	for name, test := range map[string]struct {
		healthy, cut, found, again float64
		want                       string
	}{
		"latencies without a difference":                    {1, 1, 1, 1, reached},
		"latencies as far apart as those of equal runs":     {1, 1.2, 1.2, 1, reached},
		"slower than both without a black hole":             {1, 2, 1, 1.5, notReached},
		"slower when the target is known to be unreachable": {1, 1, 3, 1, notReached},
		"not all variants measured":                         {1, 0, 0, 0, notMeasured},
	} {
		t.Run(name, func(t *testing.T) {
			var results []Result
			for variant, p99 := range map[string]float64{
				Healthy: test.healthy, JustCut: test.cut, FoundOut: test.found, HealthyAgain: test.again,
			} {
				results = append(results, Result{Scenario: Blackhole, Kind: Elected, Variant: variant, P99Seconds: p99})
			}
			if got := blackholeBudget(results).State; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestMemoryIsComparedAtFullSizeOnly(t *testing.T) {
	for name, test := range map[string]struct {
		memory *Memory
		want   string
	}{
		"no memory measured":      {nil, notMeasured},
		"fewer proxies measured":  {&Memory{Targets: 100, Proxies: 100, PeakMiB: 100, Time: time.Now()}, notMeasured},
		"a peak below the budget": {&Memory{Targets: 100, Proxies: 10000, PeakMiB: 299}, reached},
		"a peak above the budget": {&Memory{Targets: 100, Proxies: 10000, SteadyMiB: 100, PeakMiB: 301}, notReached},
	} {
		t.Run(name, func(t *testing.T) {
			if got := memoryBudget(test.memory).State; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestTheKindThatLosesMostDecidesTheBudgetOfStreams(t *testing.T) {
	kind := func(name string, virtual float64) Stream {
		return Stream{Kind: name, Virtual: []float64{virtual}, Directly: []float64{100}}
	}
	for name, test := range map[string]struct {
		streams *Streams
		want    string
	}{
		"not measured":           {nil, notMeasured},
		"nothing measured":       {&Streams{}, notMeasured},
		"all within the budget":  {&Streams{Kinds: []Stream{kind("exec", 95), kind("attach", 70)}}, reached},
		"one beyond the budget":  {&Streams{Kinds: []Stream{kind("exec", 95), kind("attach", 69.9)}}, notReached},
		"the first one is worst": {&Streams{Kinds: []Stream{kind("exec", 50), kind("attach", 70)}}, notReached},
		"nothing went directly":  {&Streams{Kinds: []Stream{{Virtual: []float64{1}}}}, notReached},
	} {
		t.Run(name, func(t *testing.T) {
			if got := streamsBudget(test.streams).State; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestAnAxisEndsAboveTheHighestBar(t *testing.T) {
	for v, want := range map[float64]string{0: "1", .28: "0.3", 1.77: "2", 100: "100", 102: "150", 17: "20"} {
		if got := roundUp(v); got != want {
			t.Errorf("roundUp(%v) is %s, want %s", v, got, want)
		}
	}
}
