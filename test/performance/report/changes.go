package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Change has the figures of equal measurements of changes: each is the median, with the least and the greatest.
type Change struct {
	What     string
	Kind     string
	Pods     int
	P50      string
	P99      string
	Complete string
	Gone     string
	Source   string // writes per pod
	Target   string
	Steps    []StepSpan
	Writes   string // per pod, by cluster, verb and resource
}

// StepSpan has the figures of a step, as in Change.
type StepSpan struct{ Name, P50, P99 string }

// changes returns the figures of the scenarios.
func changes(results []Result, scenarios ...string) []Change {
	var found []Change
	for _, scenario := range scenarios {
		for _, group := range repeated(ofScenario(results, scenario)) {
			found = append(found, changeOf(group))
		}
	}
	return found
}

func changeOf(group []Result) Change {
	first := group[0]
	what := first.Scenario
	if first.Variant != "" {
		what += ", " + first.Variant
	}
	c := Change{
		What: what, Kind: first.Kind, Pods: first.Pods, Writes: writesOf(group),
		P50:      span(group, milliseconds, func(r Result) float64 { return r.P50Seconds }),
		P99:      span(group, milliseconds, func(r Result) float64 { return r.P99Seconds }),
		Complete: span(group, seconds, func(r Result) float64 { return r.CompleteSeconds }),
		Gone:     span(group, seconds, func(r Result) float64 { return r.DeleteSeconds }),
		Source:   span(group, number, func(r Result) float64 { return r.SourceWrites }),
		Target:   "–",
	}
	if first.Kind == Elected {
		c.Target = span(group, number, func(r Result) float64 { return r.TargetWrites })
	}
	for i, step := range first.Steps {
		c.Steps = append(c.Steps, StepSpan{
			Name: step.Name,
			P50:  span(group, milliseconds, func(r Result) float64 { return r.Steps[i].P50Seconds }),
			P99:  span(group, milliseconds, func(r Result) float64 { return r.Steps[i].P99Seconds }),
		})
	}
	return c
}

func milliseconds(v float64) string { return fmt.Sprintf("%.0f", v*1000) }

func seconds(v float64) string { return fmt.Sprintf("%.1f", v) }

func number(v float64) string { return fmt.Sprintf("%.1f", v) }

// span returns the median of a figure, and the least and the greatest if they differ.
func span(group []Result, format func(float64) string, figure func(Result) float64) string {
	values := make([]float64, 0, len(group))
	for _, r := range group {
		values = append(values, figure(r))
	}
	slices.Sort(values)
	middle := format((values[(len(values)-1)/2] + values[len(values)/2]) / 2)
	least, greatest := format(values[0]), format(values[len(values)-1])
	if least == greatest {
		return middle
	}
	return fmt.Sprintf("%s (%s to %s)", middle, least, greatest)
}

// writesOf lists the means of the writes per pod, the most frequent first, without those that hardly ever happen.
func writesOf(group []Result) string {
	const least = 0.05
	means := map[string]float64{}
	for _, r := range group {
		for key, n := range r.WritesByResource {
			means[key] += n / float64(len(group))
		}
	}
	maps.DeleteFunc(means, func(_ string, n float64) bool { return n < least })
	keys := slices.SortedFunc(maps.Keys(means), func(a, b string) int {
		return cmp.Or(cmp.Compare(means[b], means[a]), cmp.Compare(a, b))
	})
	for i, key := range keys {
		keys[i] = fmt.Sprintf("%.1f %s", means[key], key)
	}
	return strings.Join(keys, ", ")
}
