package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// appendResult appends a measurement to the results file, as a line of JSON.
func appendResult(path string, r report.Result) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return json.NewEncoder(file).Encode(r)
}

// writeReport writes the report, with the results of the other benchmarks if there are some from another time.
func writeReport(o options, r report.Report) (err error) {
	if r.Memory, err = read[report.Memory](o.memory); err != nil {
		return err
	}
	if r.Following, err = read[report.Memory](o.following); err != nil {
		return err
	}
	if r.Streams, err = read[report.Streams](o.streams); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.report), 0o755); err != nil {
		return err
	}
	file, err := os.Create(o.report)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	fmt.Println("The report is", o.report)
	return report.Render(file, r)
}

// read returns the result of a benchmark from another time, or nil if there is none.
func read[T any](path string) (*T, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	result := new(T)
	if err := json.Unmarshal(data, result); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return result, nil
}
