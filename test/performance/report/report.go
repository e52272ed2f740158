package report

import (
	_ "embed" // for the template
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

//go:embed report.md.tmpl
var page string

// Environment describes the machine and the versions of a measurement.
type Environment struct {
	CPU        string // model
	Cores      int
	MemoryGiB  float64
	Kernel     string
	Load       string // Linux's load average of the minute before
	Kubernetes string
	Etcd       string
	Kwok       string
	Product    string
	Go         string
	Nodes      int // simulated, in each cluster
}

// Report is the data of a report.
type Report struct {
	Title       string
	Command     string
	Time        time.Time
	Took        time.Duration
	Environment Environment
	Results     []Result
	Further     []string // the cluster of each further target, as in "again-1 to c2"
	Memory      *Memory  // nil if not measured
	Following   *Memory  // the same while objects follow the proxies
	Streams     *Streams // nil if not measured
}

// Render writes the report as Markdown.
func Render(w io.Writer, r Report) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"seconds": func(v float64) string { return fmt.Sprintf("%.2f s", v) },
		"one":     func(v float64) string { return fmt.Sprintf("%.1f", v) },
		"round":   func(v float64) string { return fmt.Sprintf("%.0f", v) },
		"ms":      func(v float64) string { return fmt.Sprintf("%.0f ms", v*1000) },
		"join":    func(s []string) string { return strings.Join(s, ", ") },
		"targets": targetsOf,
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("parsing the template: %w", err)
	}
	return t.Execute(w, newView(r))
}

// view is the data that the template reads.
type view struct {
	Report
	Repeated bool
	Bursts   []Result
	Alone    []Result
	Light    []Result
	Holes    []Result
	Churns   []Result
	Drains   []Result
	Changes  []Change
	Stepped  []Change // those of Changes that have steps
	Rollouts []Change
	Counts   []int // numbers of targets: the columns of the budgets
	Budgets  []Budget
	Others   []Budget
	Rate     string // a plot, as P99
	P99      string
	Writes   matrix
	Programs matrix
	Clusters matrix
	Idle     []string // what each cluster takes without pods, as in "c1 60 ms"
}

func newView(r Report) view {
	results := Medians(r.Results)
	bursts := ofScenario(results, Burst)
	v := view{
		Report:   r,
		Repeated: len(results) < len(r.Results),
		Bursts:   bursts,
		Alone:    ofScenario(results, Alone),
		Light:    ofScenario(results, Light),
		Holes:    ofScenario(results, Blackhole),
		Churns:   ofScenario(results, Churn),
		Drains:   ofScenario(results, Drain),
		Changes:  changes(r.Results, Feedback, Labels, InPlace),
		Rollouts: changes(r.Results, Rollout),
		Counts:   targetCounts(bursts),
		Budgets:  Budgets(results),
		Others:   []Budget{blackholeBudget(results), memoryBudget(r.Memory), streamsBudget(r.Streams)},
		Rate:     plot("Pods per second", "pods/s", bars(bursts, func(r Result) float64 { return r.PodsPerSecond })),
		P99: plot("Created to Running, 99th percentile", "seconds",
			bars(bursts, func(r Result) float64 { return r.P99Seconds })),
	}
	v.Stepped = slices.DeleteFunc(slices.Clone(v.Changes), func(c Change) bool { return len(c.Steps) == 0 })
	if shown := middle(bursts); len(shown) > 0 {
		v.Writes = newMatrix(shown, func(r Result) map[string]float64 { return r.WritesByResource }, 0.005)
		cpu := func(r Result) map[string]float64 { return inMilliseconds(r.CPUByProgram) }
		v.Programs = newMatrix(shown, cpu, 0.05)
		v.Clusters = newMatrix(shown, func(r Result) map[string]float64 { return inMilliseconds(r.CPUByCluster) }, 0.05)
		idle := shown[0].IdleCPUByCluster
		for _, cluster := range slices.Sorted(maps.Keys(idle)) {
			v.Idle = append(v.Idle, fmt.Sprintf("%s %.0f ms", cluster, idle[cluster]*1000))
		}
	}
	return v
}

func bars(results []Result, value func(Result) float64) []bar {
	var bars []bar
	for _, r := range results {
		label := strconv.Itoa(r.Pods)
		if r.Kind == Elected {
			label = fmt.Sprintf("%d/%d", r.Pods, r.Targets)
		}
		bars = append(bars, bar{label: label, value: value(r)})
	}
	return bars
}

// middle returns the measurements with the middle one of the numbers of pods: few enough that details show, many enough
// that they even out.
func middle(results []Result) []Result {
	pods := distinct(results, func(r Result) int { return r.Pods })
	return slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Pods != pods[len(pods)/2] })
}

// matrix is a table with a row for each key and a column for each measurement.
type matrix struct {
	Pods    int
	Columns []string
	Rows    []row
}

type row struct {
	Key    string
	Values []string
}

// newMatrix returns a matrix without the keys whose values are all below least.
func newMatrix(results []Result, values func(Result) map[string]float64, least float64) matrix {
	m := matrix{Pods: results[0].Pods}
	keys := map[string]bool{}
	for _, r := range results {
		m.Columns = append(m.Columns, kindOf(r))
		for key, value := range values(r) {
			keys[key] = keys[key] || value >= least
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !keys[key] {
			continue
		}
		cells := row{Key: key}
		for _, r := range results {
			cell := "–"
			if value := values(r)[key]; value >= least {
				cell = fmt.Sprintf("%.2f", value)
			}
			cells.Values = append(cells.Values, cell)
		}
		m.Rows = append(m.Rows, cells)
	}
	return m
}

func inMilliseconds(seconds map[string]float64) map[string]float64 {
	ms := map[string]float64{}
	for key, value := range seconds {
		ms[key] = value * 1000
	}
	return ms
}

func kindOf(r Result) string {
	if r.Kind == Plain {
		return Plain
	}
	if r.Targets == 1 {
		return "elected, 1 target"
	}
	return fmt.Sprintf("elected, %d targets", r.Targets)
}

func targetsOf(r Result) string {
	if r.Kind == Plain {
		return "–"
	}
	return fmt.Sprint(r.Targets)
}
