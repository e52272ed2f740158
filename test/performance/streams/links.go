package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// links are rates of the clusters' links, in megabits per second.
type links []int

// String returns the rates as the flag has them.
func (l *links) String() string { return strings.Trim(fmt.Sprint([]int(*l)), "[]") }

// Set reads rates with commas between them.
func (l *links) Set(text string) error {
	*l = nil
	for field := range strings.SplitSeq(text, ",") {
		mbit, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || mbit < 1 {
			return fmt.Errorf("%q is no number of megabits per second", field)
		}
		*l = append(*l, mbit)
	}
	return nil
}

// compareLimited measures each kind of stream again for each rate of links.
func (s *side) compareLimited(ctx context.Context, o options) (limited []report.LimitedStreams, err error) {
	defer func() {
		if len(o.links) > 0 {
			err = errors.Join(err, clusters(context.WithoutCancel(ctx), "heal", "c1", "c2"))
		}
	}()
	for _, mbit := range o.links {
		if err := clusters(ctx, "limit", "c1", "c2", "--mbit", strconv.Itoa(mbit)); err != nil {
			return limited, err
		}
		fmt.Printf("Links of %d Mbit/s:\n", mbit)
		kinds, err := s.compareAll(ctx, o)
		if err != nil {
			return limited, err
		}
		if err := checkLimit(kinds, mbit); err != nil {
			return limited, err
		}
		limited = append(limited, report.LimitedStreams{Mbit: mbit, Kinds: kinds})
	}
	return limited, nil
}

// checkLimit returns an error if a stream was faster than the links.
func checkLimit(kinds []report.Stream, mbit int) error {
	for _, kind := range kinds {
		virtual, directly, _ := kind.Medians()
		if fastest := max(virtual, directly) * 8; fastest > 1.05*float64(mbit) {
			return fmt.Errorf("%s: %.0f Mbit/s passed a link of %d Mbit/s", kind.Kind, fastest, mbit)
		}
	}
	return nil
}

func clusters(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, ".local/bin/clusters", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("clusters %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
