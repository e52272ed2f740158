package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
)

// records are the results of one or more runs, as the file of results has them.
type records struct {
	// Source and Target are the versions of Kubernetes.
	Source string `json:"source"`
	Target string `json:"target"`
	// Cases has what was found, by the name of the case.
	Cases map[string]record `json:"cases"`

	// missed says that the run left out cases with which the nodes cannot cope.
	missed bool
}

type record struct {
	Broken string       `json:"broken,omitempty"`
	Found  []difference `json:"found,omitempty"`
}

func readResults(file string) (*records, error) {
	r := &records{Cases: map[string]record{}}
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

func recordsOf(results []result, source, target string) *records {
	r := &records{Source: source, Target: target, Cases: map[string]record{}}
	for _, res := range results {
		one := record{Found: res.found}
		if res.broken != nil {
			one.Broken = res.broken.Error()
		}
		r.Cases[res.name] = one
	}
	return r
}

// merge replaces the records of the cases that another run had.
func (r *records) merge(other *records) {
	r.Source, r.Target = other.Source, other.Target
	maps.Copy(r.Cases, other.Cases)
}

func (r *records) write(file string) error {
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

// of returns the results of those cases that were run, with today's justifications.
func (r *records) of(cases []*testCase, list []*justification) []result {
	var results []result
	for _, c := range cases {
		one, ok := r.Cases[c.name]
		if !ok {
			continue
		}
		res := result{testCase: c, found: one.Found}
		if one.Broken != "" {
			res.broken = errors.New(one.Broken)
		}
		res.by, res.rest = justified(list, c.name, one.Found)
		results = append(results, res)
	}
	return results
}
