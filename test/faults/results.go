package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/page"
)

// results are what was measured, in this run and in those that the file of results has.
type results struct {
	Rounds int                 `json:"rounds"`
	Faults map[string]*figures `json:"faults"`
}

// figures are what was measured about a fault. All times are in seconds.
type figures struct {
	Count int `json:"count"`
	// Rest has the times from the last repair until all was at rest, in rounds with this fault.
	Rest []float64 `json:"rest,omitempty"`
	// Noticed, Back and TakenOver are from rounds with this fault alone: see times.
	Noticed   []float64 `json:"noticed,omitempty"`
	Back      []float64 `json:"back,omitempty"`
	TakenOver []float64 `json:"takenOver,omitempty"`
	// Took has the times from the beginning to the end of drains.
	Took []float64 `json:"took,omitempty"`
}

func readResults(file string) (*results, error) {
	r := &results{Faults: map[string]*figures{}}
	if file == "" {
		return r, nil
	}
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading earlier results: %w", err)
	}
	if err := json.Unmarshal(content, r); err != nil {
		return nil, fmt.Errorf("reading earlier results in %s: %w", file, err)
	}
	return r, nil
}

func (r *results) write(file string) error {
	if file == "" {
		return nil
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.WriteFile(file, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

func (r *results) add(res result) {
	r.Rounds++
	for _, name := range res.done {
		f := r.Faults[name]
		if f == nil {
			f = &figures{}
			r.Faults[name] = f
		}
		f.Count++
		f.Rest = append(f.Rest, rounded(res.rest.Seconds()))
		f.Took = appendTime(f.Took, res.took.Seconds())
		if len(res.times.of) > 0 && res.times.of == name {
			f.Noticed = appendTime(f.Noticed, res.times.noticed.Seconds())
			f.Back = appendTime(f.Back, res.times.back.Seconds())
			f.TakenOver = appendTime(f.TakenOver, res.times.takenOver.Seconds())
		}
	}
}

func appendTime(to []float64, seconds float64) []float64 {
	if seconds == 0 {
		return to
	}
	return append(to, rounded(seconds))
}

func rounded(seconds float64) float64 { return float64(int(seconds*10+0.5)) / 10 }

func (r *results) faults() int {
	sum := 0
	for _, f := range r.Faults {
		sum += f.Count
	}
	return sum
}

// table returns the results as a table in Markdown.
func (r *results) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d faults in %d rounds:\n\n", r.faults(), r.Rounds)
	text.WriteString("| fault | times | at rest after the repair " +
		"| node not Ready after | Ready again after | next leader after | took |\n")
	text.WriteString("|---|---|---|---|---|---|---|\n")
	names := make([]string, 0, len(r.Faults))
	for name := range r.Faults {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := r.Faults[name]
		fmt.Fprintf(&text, "| %s | %d | %s | %s | %s | %s | %s |\n", name, f.Count,
			spread(f.Rest), spread(f.Noticed), spread(f.Back), spread(f.TakenOver), spread(f.Took))
	}
	return text.String()
}

// spread returns the median and the greatest of some times.
func spread(seconds []float64) string {
	if len(seconds) == 0 {
		return "–"
	}
	sorted := slices.Sorted(slices.Values(seconds))
	return fmt.Sprintf("%.1f s, at most %.1f s", sorted[len(sorted)/2], sorted[len(sorted)-1])
}

// report replaces the table of results in a page, if there is one.
func (r *results) report(path string) error {
	if path == "" {
		return nil
	}
	return page.Write(path, "test/faults", r.table())
}
