package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/wait"
)

// Record identifies a process that this program started.
type Record struct {
	PID int `json:"pid"`
	// Started is the time at which the process started, in clock ticks since the boot.
	Started uint64 `json:"started"`
	// Command identifies the command line and the configuration of the process.
	Command string `json:"command"`
}

// Read returns the record in the file at path, or the zero Record if the file does not exist.
func Read(path string) (Record, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(content) == 0 {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, fmt.Errorf("reading the record of a process: %w", err)
	}
	var record Record
	if err := json.Unmarshal(content, &record); err != nil {
		return Record{}, fmt.Errorf("reading the record of a process in %q: %w", path, err)
	}
	return record, nil
}

// Alive reports whether the process still runs. Another process with the same ID does not count.
func (r Record) Alive() bool {
	if r.PID == 0 {
		return false
	}
	started, err := startOf(r.PID)
	return err == nil && started == r.Started
}

// Stop asks the process to end, kills it after the grace period, and returns when it is gone.
func (r Record) Stop(ctx context.Context, grace time.Duration) error {
	asked, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if grace > 0 && r.signalUntilGone(asked, syscall.SIGTERM) == nil {
		return nil
	}
	return r.signalUntilGone(ctx, syscall.SIGKILL)
}

func (r Record) signalUntilGone(ctx context.Context, signal syscall.Signal) error {
	if r.Alive() {
		// A process that has already ended is no error.
		_ = syscall.Kill(r.PID, signal)
	}
	return wait.Until(ctx, fmt.Sprintf("process %d has ended", r.PID), func(context.Context) (bool, error) {
		return !r.Alive(), nil
	})
}

func (r Record) write(path string) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the record of a process: %w", err)
	}
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return fmt.Errorf("writing the record of a process: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the record of a process: %w", err)
	}
	return nil
}

// startOf returns the time at which a process started. It returns an error for a process that has ended, even while the
// kernel still lists it.
func startOf(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the state of a process: %w", err)
	}
	return parseStat(string(content))
}

func parseStat(stat string) (uint64, error) {
	// The second field is the name in brackets, and the name may contain blanks and brackets.
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("reading the state of a process: %d fields", len(fields))
	}
	// While a process becomes another program, its first thread may end before the others.
	if threads := fields[17]; fields[0] == "X" || fields[0] == "Z" && threads <= "1" {
		return 0, errors.New("reading the state of a process: it has ended")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}
