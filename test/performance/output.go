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

// writeReport writes the report, with the result of the memory benchmark if there is one from another time.
func writeReport(o options, r report.Report) (err error) {
	if r.Memory, err = readMemory(o.memory); err != nil {
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

func readMemory(path string) (*report.Memory, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	memory := &report.Memory{}
	if err := json.Unmarshal(data, memory); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return memory, nil
}
