package report

import (
	"fmt"
	"slices"
)

// tolerance is how far equal measurements are apart on a quiet machine.
const tolerance = 1.25

// Budget is one of the project's budgets beside what was measured.
type Budget struct {
	What     string
	Budget   string
	Plain    string
	Measured map[int]string // by the number of targets; what is beyond the budget is bold
	Text     string         // what was measured, where the number of targets says nothing
	Verdict  string
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
	pods         int // zero: the worst of all numbers of pods counts
	figure       func(Result) float64
	format       string
	left         func(Result) bool // out, nil for none
	within       func(elected, plain float64) bool
	relative     bool // to plain pods
}

func atMostTimes(factor float64) func(elected, plain float64) bool {
	return func(elected, plain float64) bool { return elected < factor*plain }
}

func rules() []rule {
	perSecond := func(r Result) float64 { return r.PodsPerSecond }
	half := func(elected, plain float64) bool { return elected >= 0.5*plain }
	p50 := func(r Result) float64 { return r.P50Seconds }
	p99 := func(r Result) float64 { return r.P99Seconds }
	deletion := func(r Result) float64 { return r.DeleteSeconds }
	return []rule{
		{what: "pods/s, 100 pods at once", budget: "at least 0.5 × plain", scenario: Burst, pods: 100, figure: perSecond, format: "%.0f", within: half, relative: true},
		{what: "pods/s, 500 pods at once", budget: "at least 0.5 × plain", scenario: Burst, pods: 500, figure: perSecond, format: "%.0f", within: half, relative: true},
		{what: "one pod alone, created → Running (median)", budget: "under 2 × plain", scenario: Alone, figure: p50, format: "%.3f s", within: atMostTimes(2), relative: true},
		{what: "p99, 100 pods at once", budget: "under 3 × plain", scenario: Burst, pods: 100, figure: p99, format: "%.2f s", within: atMostTimes(3), relative: true},
		{what: "API writes per pod", budget: "at most 12", scenario: Burst, format: "%.1f",
			figure: func(r Result) float64 { return r.WritesPerPod }, within: func(e, _ float64) bool { return e <= 12 }},
		{what: "of these in the source", budget: "at most 5", scenario: Burst, format: "%.1f",
			figure: func(r Result) float64 { return r.SourceWrites }, left: func(r Result) bool { return r.SourceIsTarget },
			within: func(e, _ float64) bool { return e <= 5 }},
		{what: "CPU of everything per pod", budget: "under 45 ms", scenario: Burst, format: "%.0f ms",
			figure: func(r Result) float64 { return r.CPUSeconds * 1000 }, within: func(e, _ float64) bool { return e < 45 }},
		{what: "deleting 100 pods, until nothing is left", budget: "under 3 × plain", scenario: Burst, pods: 100, figure: deletion, format: "%.1f s", within: atMostTimes(3), relative: true},
		{what: "draining a node, until nothing is left", budget: "under 3 × plain", scenario: Drain, figure: deletion, format: "%.1f s", within: atMostTimes(3), relative: true},
	}
}

// Budgets compares the measurements with those budgets that a number of targets and plain pods beside them make sense of.
func Budgets(results []Result) []Budget {
	budgets := make([]Budget, 0, len(rules()))
	for _, r := range rules() {
		budgets = append(budgets, r.judge(results))
	}
	return budgets
}

func (r rule) judge(results []Result) Budget {
	b := Budget{What: r.what, Budget: r.budget, Plain: "–", Measured: map[int]string{}, Verdict: notMeasured}
	plain, beside := r.worst(results, Plain, 0)
	if beside {
		b.Plain = fmt.Sprintf(r.format, plain)
	}
	if r.relative && !beside {
		return b
	}
	for _, targets := range targetCounts(of(results, r.scenario)) {
		elected, ok := r.worst(results, Elected, targets)
		if !ok {
			continue
		}
		text := fmt.Sprintf(r.format, elected)
		if r.relative && plain > 0 {
			text += fmt.Sprintf(" (%.2f ×)", elected/plain)
		}
		if b.Verdict == notMeasured {
			b.Verdict = reached
		}
		if !r.within(elected, plain) {
			text, b.Verdict = "**"+text+"**", notReached
		}
		b.Measured[targets] = text
	}
	return b
}

// worst is the largest of the figures of one kind of pods and a number of targets (zero: any).
func (r rule) worst(results []Result, kind string, targets int) (float64, bool) {
	worst, found := 0.0, false
	for _, one := range of(results, r.scenario) {
		if one.Kind != kind || targets != 0 && one.Targets != targets || r.pods != 0 && one.Pods != r.pods || r.left != nil && r.left(one) {
			continue
		}
		worst, found = max(worst, r.figure(one)), true
	}
	return worst, found
}

// targetCounts are the numbers of targets with which elected pods were measured.
func targetCounts(results []Result) []int {
	elected := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Kind != Elected })
	return distinct(elected, func(r Result) int { return r.Targets })
}

// blackholeBudget compares the pods that went to the targets that answer with and without a target that does not.
func blackholeBudget(results []Result) Budget {
	b := Budget{
		What:    "pods for the others while one target of ten is black-holed, p99",
		Budget:  fmt.Sprintf("no measurable effect: under %.2f × without", tolerance),
		Verdict: notMeasured,
	}
	p99 := map[string]float64{}
	for _, r := range of(results, Blackhole) {
		p99[r.Variant] = r.P99Seconds
	}
	without := max(p99[Healthy], p99[HealthyAgain])
	with := max(p99[JustCut], p99[FoundOut])
	if without == 0 || with == 0 {
		return b
	}
	b.Text = fmt.Sprintf("%.2f s and %.2f s without; %.2f s when it was just cut off, %.2f s when that is known",
		p99[Healthy], p99[HealthyAgain], p99[JustCut], p99[FoundOut])
	b.Verdict = verdict(with < tolerance*without)
	return b
}

func memoryBudget(m *Memory) Budget {
	b := Budget{What: "the manager's memory with 100 targets and 10,000 proxies", Budget: "under 300 MiB", Verdict: notMeasured}
	if m == nil {
		return b
	}
	b.Text = fmt.Sprintf("%.0f MiB settled, %.0f MiB at its peak (%d targets, %d proxies; %s, version %s)",
		m.SettledMiB, m.PeakMiB, m.Targets, m.Proxies, m.Time.Format("2006-01-02"), m.Version)
	if m.Targets >= 100 && m.Proxies >= 10000 {
		b.Verdict = verdict(m.PeakMiB < 300)
	}
	return b
}

func verdict(ok bool) string {
	if ok {
		return reached
	}
	return notReached
}
