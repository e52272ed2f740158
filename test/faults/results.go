package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/page"
)

// version is that of the checker. Results of an earlier one, which excused more, do not count.
const version = 5

// results are what was measured, in this run and in those that the file of results has.
type results struct {
	Version int `json:"version"`
	// Runs are the options of the runs, and the rounds of each.
	Runs       []*runOptions `json:"runs,omitempty"`
	Rounds     int           `json:"rounds"`
	Faults     measured      `json:"faults"`
	Operations measured      `json:"operations"`
}

// runOptions repeat a run: the commit, its seed, its first round, and how many rounds it played. With another commit, a
// seed may draw other rounds.
type runOptions struct {
	Commit string `json:"commit"`
	Seed   uint64 `json:"seed"`
	First  uint64 `json:"first"`
	Rounds int    `json:"rounds"`
}

// measured are figures by the name of a fault or an operation.
type measured map[string]*figures

func newResults() *results {
	return &results{Version: version, Faults: measured{}, Operations: measured{}}
}

// figures are what was measured about a fault. All times are in seconds.
type figures struct {
	Count int `json:"count"`
	// Rest has the times from the last repair until all was at rest, in rounds with this fault.
	Rest []float64 `json:"rest,omitempty"`
	// Noticed, Back, TakenOver and TakenOverThere are from rounds with this fault alone: see times.
	Noticed        []float64 `json:"noticed,omitempty"`
	Back           []float64 `json:"back,omitempty"`
	TakenOver      []float64 `json:"takenOver,omitempty"`
	TakenOverThere []float64 `json:"takenOverThere,omitempty"`
	// Took has the times from the beginning to the end of drains.
	Took []float64 `json:"took,omitempty"`
}

// readResults returns the results in a file. They begin anew if it does not exist.
func readResults(file string) (*results, error) {
	if file == "" {
		return newResults(), nil
	}
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return newResults(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading earlier results: %w", err)
	}
	r := newResults()
	r.Version = 0
	if err := json.Unmarshal(content, r); err != nil {
		return nil, fmt.Errorf("reading earlier results in %s: %w", file, err)
	}
	if r.Version < version {
		return nil, fmt.Errorf("the results in %s are those of checker %d, which excused more than this one, %d: "+
			"move the file away to begin anew", file, r.Version, version)
	}
	return r, nil
}

// begin notes that a run of a commit begins.
func (r *results) begin(o options, commit string) {
	r.Runs = append(r.Runs, &runOptions{Commit: commit, Seed: o.seed, First: o.first})
}

// commit returns the commit that is checked out, with the mark "-dirty" if files differ from it.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=10").Output()
	if err != nil {
		return "an unknown commit"
	}
	return strings.TrimSpace(string(out))
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
	if n := len(r.Runs); n > 0 {
		r.Runs[n-1].Rounds++
	}
	r.Faults.add(res.faults, res)
	r.Operations.add(res.operations, res)
}

func (m measured) add(names []string, res result) {
	for _, name := range names {
		f := m[name]
		if f == nil {
			f = &figures{}
			m[name] = f
		}
		f.Count++
		f.Rest = append(f.Rest, rounded(res.rest.Seconds()))
		f.Took = appendTime(f.Took, res.took.Seconds())
		if len(res.times.of) > 0 && res.times.of == name {
			f.Noticed = appendTime(f.Noticed, res.times.noticed.Seconds())
			f.Back = appendTime(f.Back, res.times.back.Seconds())
			f.TakenOver = appendTime(f.TakenOver, res.times.takenOver.Seconds())
			f.TakenOverThere = appendTime(f.TakenOverThere, res.times.takenOverThere.Seconds())
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

func (m measured) count() int {
	sum := 0
	for _, f := range m {
		sum += f.Count
	}
	return sum
}

// table returns the commands that repeat the results, and the results as tables in Markdown.
func (r *results) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d faults and %d operations in %d rounds", r.Faults.count(), r.Operations.count(), r.Rounds)
	if len(r.Runs) > 0 {
		text.WriteString(", of these commands:\n\n```sh\n")
		for _, o := range r.Runs {
			fmt.Fprintf(&text, "make test-faults FAULTS=\"-seed %d -first %d -rounds %d -for 24h\" # %s\n",
				o.Seed, o.First, o.Rounds, o.Commit)
		}
		text.WriteString("```")
	}
	text.WriteString("\n")
	r.Faults.table(&text, "fault")
	r.Operations.table(&text, "operation")
	return text.String()
}

// column is a column of times.
type column struct {
	title string
	of    func(*figures) []float64
}

func (m measured) table(text *strings.Builder, of string) {
	columns := []column{{"at rest after the repair", func(f *figures) []float64 { return f.Rest }}}
	if of == "fault" {
		columns = append(columns,
			column{"node not Ready after", func(f *figures) []float64 { return f.Noticed }},
			column{"Ready again after", func(f *figures) []float64 { return f.Back }},
			column{"next leader after", func(f *figures) []float64 { return f.TakenOver }},
			column{"in the target", func(f *figures) []float64 { return f.TakenOverThere }})
	} else {
		columns = append(columns, column{"took", func(f *figures) []float64 { return f.Took }})
	}
	fmt.Fprintf(text, "\n| %s | times |", of)
	for _, c := range columns {
		fmt.Fprintf(text, " %s |", c.title)
	}
	text.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(text, "| %s | %d |", name, m[name].Count)
		for _, c := range columns {
			fmt.Fprintf(text, " %s |", spread(c.of(m[name])))
		}
		text.WriteString("\n")
	}
}

// spread returns the median and the greatest of some times, and how many there are.
func spread(seconds []float64) string {
	if len(seconds) == 0 {
		return "–"
	}
	sorted := slices.Sorted(slices.Values(seconds))
	return fmt.Sprintf("%.1f s, at most %.1f s (%d)", sorted[len(sorted)/2], sorted[len(sorted)-1], len(sorted))
}

// report replaces the table of results in a page, if there is one.
func (r *results) report(path string) error {
	if path == "" {
		return nil
	}
	return page.Write(path, "test/faults", r.table())
}
