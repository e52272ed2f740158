package report

import (
	"fmt"
	"slices"
)

// tolerance is the factor by which equal measurements may differ.
const tolerance = 1.25

// Budget is one of the project's budgets, and the figures to compare with it.
type Budget struct {
	What     string
	Budget   string
	Plain    string
	Measured map[int]string // by the number of targets; figures beyond the budget are bold
	Text     string         // the figures of a budget for which the number of targets has no meaning
	State    string         // reached, notReached or notMeasured
}

const (
	reached     = "reached"
	notReached  = "**not reached**"
	notMeasured = "not measured"
)

// rule is a budget on one figure of elected pods.
type rule struct {
	what, budget string
	scenario     string
	pods         int // zero: the worst figure of all numbers of pods counts
	figure       func(Result) float64
	format       string
	excluded     func(Result) bool // measurements that do not count; nil for none
	within       func(elected, plain float64) bool
	relative     bool // to plain pods
}

func underTimes(factor float64) func(elected, plain float64) bool {
	return func(elected, plain float64) bool { return elected < factor*plain }
}

func atMostTimes(factor float64) func(elected, plain float64) bool {
	return func(elected, plain float64) bool { return elected <= factor*plain }
}

func atLeastTimes(factor float64) func(elected, plain float64) bool {
	return func(elected, plain float64) bool { return elected >= factor*plain }
}

func rules() []rule {
	perSecond := func(r Result) float64 { return r.PodsPerSecond }
	deletion := func(r Result) float64 { return r.DeleteSeconds }
	return append([]rule{
		{what: "pods/s, 100 pods at once", budget: "at least 0.38 × plain", scenario: Burst, pods: 100,
			figure: perSecond, format: "%.0f", within: atLeastTimes(0.38), relative: true},
		{what: "pods/s, 500 pods at once", budget: "at least 0.38 × plain", scenario: Burst, pods: 500,
			figure: perSecond, format: "%.0f", within: atLeastTimes(0.38), relative: true},
		{what: "one pod alone, created → Running (median)", budget: "under 2.5 × plain", scenario: Alone,
			figure: func(r Result) float64 { return r.P50Seconds },
			format: "%.3f s", within: underTimes(2.5), relative: true},
		{what: "API writes per pod", budget: "at most 12", scenario: Burst, format: "%.1f",
			figure: func(r Result) float64 { return r.WritesPerPod },
			within: func(e, _ float64) bool { return e <= 12 }},
		{what: "of these in the source", budget: "at most 5", scenario: Burst, format: "%.1f",
			figure:   func(r Result) float64 { return r.SourceWrites },
			excluded: sourceIsTarget,
			within:   func(e, _ float64) bool { return e <= 5 }},
		{what: "deleting 100 pods, until nothing is left", budget: "under 3 × plain", scenario: Burst, pods: 100,
			figure: deletion, format: "%.1f s", within: underTimes(3), relative: true},
		{what: "draining a node, until nothing is left", budget: "under 3 × plain", scenario: Drain,
			figure: deletion, format: "%.1f s", within: underTimes(3), relative: true},
	}, cpuRules()...)
}

// cpuRules returns the budgets on CPU. They compare one number of pods, because the CPU per pod depends on the number.
func cpuRules() []rule {
	return []rule{
		{what: "CPU of everything per pod, 500 pods at once", budget: "at most 2.6 × plain", scenario: Burst, pods: 500,
			figure: func(r Result) float64 { return r.CPUSeconds * 1000 },
			format: "%.0f ms", within: atMostTimes(2.6), relative: true},
		{what: "CPU of the source per pod, without idling", budget: "at most 1.2 × plain", scenario: Burst, pods: 500,
			figure:   func(r Result) float64 { return r.SourceCPUSeconds * 1000 },
			excluded: sourceIsTarget,
			format:   "%.0f ms", within: atMostTimes(1.2), relative: true},
		{what: "CPU of the target per pod, without idling", budget: "at most 1.6 × plain", scenario: Burst, pods: 500,
			figure: func(r Result) float64 {
				if r.Kind == Plain { // Plain pods run in the source.
					return r.SourceCPUSeconds * 1000
				}
				return r.TargetCPUSeconds * 1000
			},
			excluded: sourceIsTarget,
			format:   "%.0f ms", within: atMostTimes(1.6), relative: true},
	}
}

func sourceIsTarget(r Result) bool { return r.SourceIsTarget }

// Budgets compares the measurements with the budgets that are stated for a number of targets or beside plain pods.
func Budgets(results []Result) []Budget {
	budgets := make([]Budget, 0, len(rules()))
	for _, r := range rules() {
		budgets = append(budgets, r.compare(results))
	}
	return budgets
}

// compare returns the budget with the figures of the measurements to which the rule applies.
func (r rule) compare(results []Result) Budget {
	b := Budget{What: r.what, Budget: r.budget, Plain: "–", Measured: map[int]string{}, State: notMeasured}
	plain, ok := r.worst(results, Plain, 0)
	if ok {
		b.Plain = fmt.Sprintf(r.format, plain)
	}
	if r.relative && !ok {
		return b
	}
	for _, targets := range targetCounts(ofScenario(results, r.scenario)) {
		elected, ok := r.worst(results, Elected, targets)
		if !ok {
			continue
		}
		text := fmt.Sprintf(r.format, elected)
		if r.relative && plain > 0 {
			text += fmt.Sprintf(" (%.2f ×)", elected/plain)
		}
		if b.State == notMeasured {
			b.State = reached
		}
		if !r.within(elected, plain) {
			text, b.State = "**"+text+"**", notReached
		}
		b.Measured[targets] = text
	}
	return b
}

// worst returns the largest figure of one kind of pods with a number of targets (zero: any), and whether there is one.
func (r rule) worst(results []Result, kind string, targets int) (float64, bool) {
	worst, found := 0.0, false
	for _, one := range ofScenario(results, r.scenario) {
		switch {
		case one.Kind != kind, targets != 0 && one.Targets != targets, r.pods != 0 && one.Pods != r.pods:
			continue
		case r.excluded != nil && r.excluded(one):
			continue
		}
		worst, found = max(worst, r.figure(one)), true
	}
	return worst, found
}

// targetCounts returns the numbers of targets with which elected pods were measured.
func targetCounts(results []Result) []int {
	elected := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Kind != Elected })
	return distinct(elected, func(r Result) int { return r.Targets })
}

// blackholeBudget compares the pods for the targets that answer: with and without a target that does not.
func blackholeBudget(results []Result) Budget {
	b := Budget{
		What:   "pods for the others while one target of ten is black-holed (p99)",
		Budget: fmt.Sprintf("no measurable effect: under %.2f × without a black hole", tolerance),
		State:  notMeasured,
	}
	p99 := map[string]float64{}
	for _, r := range ofScenario(results, Blackhole) {
		p99[r.Variant] = r.P99Seconds
	}
	without := max(p99[Healthy], p99[HealthyAgain])
	with := max(p99[JustCut], p99[FoundOut])
	if without == 0 || with == 0 {
		return b
	}
	const text = "without a black hole %.2f s and %.2f s; target just cut off %.2f s; known to be unreachable %.2f s"
	b.Text = fmt.Sprintf(text, p99[Healthy], p99[HealthyAgain], p99[JustCut], p99[FoundOut])
	b.State = stateOf(with < tolerance*without)
	return b
}

// memoryBudget compares the peak, and only where the memory was measured at full size.
func memoryBudget(m *Memory) Budget {
	const what = "the manager's memory with 100 targets and 10,000 proxies"
	b := Budget{What: what, Budget: "under 300 MiB", State: notMeasured}
	if m == nil {
		return b
	}
	b.Text = fmt.Sprintf("peak %.0f MiB, settled %.0f MiB (%d targets, %d proxies; %s, version %s)",
		m.PeakMiB, m.SteadyMiB, m.Targets, m.Proxies, m.Time.Format("2006-01-02"), m.Version)
	if m.Targets >= 100 && m.Proxies >= 10000 {
		b.State = stateOf(m.PeakMiB < 300)
	}
	return b
}

func stateOf(ok bool) string {
	if ok {
		return reached
	}
	return notReached
}
