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

// skewProgram names the part of the page about two versions of Kubernetes.
const skewProgram = "test/conformance of two versions"

// skewRun is what came of a run in which source and target have different minor versions of Kubernetes.
type skewRun struct {
	// Records has the results of the cases.
	Records *records `json:"records"`
	// Fields has what becomes of newer fields, by name.
	Fields map[string]string `json:"fields"`
}

// skewRuns are the runs of both directions, by the versions of source and target.
type skewRuns map[string]skewRun

func readSkew(file string) (skewRuns, error) {
	runs := skewRuns{}
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return runs, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading earlier runs: %w", err)
	}
	if err := json.Unmarshal(content, &runs); err != nil {
		return nil, fmt.Errorf("reading earlier runs in %s: %w", file, err)
	}
	return runs, nil
}

// add adds a run. Its results replace those of the same cases and versions.
func (s skewRuns) add(run skewRun) {
	key := run.Records.Source + " " + run.Records.Target
	if earlier, ok := s[key]; ok {
		earlier.Records.merge(run.Records)
		run.Records = earlier.Records
	}
	s[key] = run
}

func (s skewRuns) write(file string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the runs: %w", err)
	}
	if err := os.WriteFile(file, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the runs: %w", err)
	}
	return nil
}

// report writes the part of the page about two versions.
func (s skewRuns) report(path string, cases []*testCase, list []*justification) error {
	return page.Write(path, skewProgram, s.text(cases, list))
}

// sorted returns the runs, those with the newer source first.
func (s skewRuns) sorted() []skewRun {
	var runs []skewRun
	for _, run := range s {
		runs = append(runs, run)
	}
	slices.SortFunc(runs, func(a, b skewRun) int {
		return strings.Compare(b.Records.Source+b.Records.Target, a.Records.Source+a.Records.Target)
	})
	return runs
}

func (s skewRuns) text(cases []*testCase, list []*justification) string {
	var text strings.Builder
	runs := s.sorted()
	text.WriteString("| source | target | cases | no difference of two versions | others |\n|---|---|---|---|---|\n")
	for _, run := range runs {
		r := report{results: run.Records.of(cases, list), list: list}
		var differ []string
		for _, res := range r.results {
			if names := ofTwoVersions(res); len(names) > 0 {
				differ = append(differ, fmt.Sprintf("`%s`: %s", res.name, strings.Join(names, ", ")))
			}
		}
		fmt.Fprintf(&text, "| %s | %s | %d | %d | %s |\n", run.Records.Source, run.Records.Target, len(r.results),
			len(r.results)-len(differ), strings.Join(differ, "; "))
	}
	text.WriteString("\n| pods may also differ in | why |\n|---|---|\n")
	for _, j := range list {
		if j.TwoVersions {
			fmt.Fprintf(&text, "| %s | %s |\n", j.Name, oneLine(j.Why))
		}
	}
	text.WriteString("\n| field of pods | since |")
	for _, run := range runs {
		fmt.Fprintf(&text, " source %s, target %s |", run.Records.Source, run.Records.Target)
	}
	text.WriteString("\n|---|---|" + strings.Repeat("---|", len(runs)) + "\n")
	for _, field := range newerFields() {
		fmt.Fprintf(&text, "| `%s` | %s |", field.name, field.since)
		for _, run := range runs {
			fmt.Fprintf(&text, " %s |", oneLine(run.Fields[field.name]))
		}
		text.WriteString("\n")
	}
	return text.String()
}

// ofTwoVersions returns the differences of a case that are not those of all pods, and that it does not have with one
// version.
func ofTwoVersions(res result) []string {
	var names []string
	for _, j := range res.by {
		if j.TwoVersions && j.Cases != ".*" {
			names = append(names, j.Name)
		}
	}
	if len(res.rest) > 0 || res.broken != nil {
		names = append(names, "**not explained**")
	}
	return names
}

// decideSkew returns an error if a field was swallowed.
func decideSkew(fields map[string]string) error {
	var errs []error
	for _, field := range newerFields() {
		if fields[field.name] == swallowed {
			errs = append(errs, fmt.Errorf("the target drops %s, and the proxy does not show it", field.name))
		}
	}
	return errors.Join(errs...)
}
