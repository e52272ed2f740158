package report

import (
	_ "embed" // for the template
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"
)

//go:embed report.md.tmpl
var page string

// Environment is where and with what it was measured.
type Environment struct {
	CPU        string // model
	Cores      int
	MemoryGiB  float64
	Kernel     string
	Load       string // average over the minute before
	Kubernetes string
	Etcd       string
	Kwok       string
	Product    string
	Go         string
	Nodes      int // simulated, in each cluster
}

// Report is what a report is made of.
type Report struct {
	Title       string
	Command     string
	Time        time.Time
	Took        time.Duration
	Environment Environment
	Results     []Result
	Further     []string // what the targets beyond the clusters are: "again-1 leads to c1"
	Memory      *Memory  // nil if it was not measured
}

// Render writes the report.
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

// view is what the template reads.
type view struct {
	Report
	Repeated bool
	Bursts   []Result
	Alone    []Result
	Light    []Result
	Holes    []Result
	Churns   []Result
	Drains   []Result
	Counts   []int // of targets, the columns of the budgets
	Budgets  []Budget
	Others   []Budget
	Rate     string // plots
	P99      string
	Writes   matrix
	Programs matrix
}

func newView(r Report) view {
	results := Medians(r.Results)
	bursts := of(results, Burst)
	v := view{
		Report:   r,
		Repeated: len(results) < len(r.Results),
		Bursts:   bursts,
		Alone:    of(results, Alone),
		Light:    of(results, Light),
		Holes:    of(results, Blackhole),
		Churns:   of(results, Churn),
		Drains:   of(results, Drain),
		Counts:   targetCounts(bursts),
		Budgets:  Budgets(results),
		Others:   []Budget{blackholeBudget(results), memoryBudget(r.Memory)},
		Rate:     plot("Pods per second", "pods/s", bars(bursts, func(r Result) float64 { return r.PodsPerSecond })),
		P99:      plot("Created to Running, 99th percentile", "seconds", bars(bursts, func(r Result) float64 { return r.P99Seconds })),
	}
	if shown := middle(bursts); len(shown) > 0 {
		v.Writes = newMatrix(shown, func(r Result) map[string]float64 { return r.WritesByResource }, 0.005)
		v.Programs = newMatrix(shown, func(r Result) map[string]float64 { return inMilliseconds(r.CPUByProgram) }, 0.05)
	}
	return v
}

func bars(results []Result, value func(Result) float64) []bar {
	var bars []bar
	for _, r := range results {
		label := fmt.Sprintf("%d plain", r.Pods)
		if r.Kind == Elected {
			label = fmt.Sprintf("%d to %d", r.Pods, r.Targets)
		}
		bars = append(bars, bar{label: label, value: value(r)})
	}
	return bars
}

// middle are the measurements with the middle one of the numbers of pods: small enough for details to count, large enough to even out.
func middle(results []Result) []Result {
	pods := distinct(results, func(r Result) int { return r.Pods })
	return slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Pods != pods[len(pods)/2] })
}

// matrix is a table of what measurements have in common: a row for each key, a column for each measurement.
type matrix struct {
	Pods    int
	Columns []string
	Rows    []row
}

type row struct {
	Key    string
	Values []string
}

// newMatrix leaves out what is smaller than least everywhere.
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
