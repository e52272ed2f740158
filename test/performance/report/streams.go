package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// leastThroughput is the budget of streams: a part of what they reach directly in the target.
const leastThroughput = 0.7

// Streams is the result of the benchmark of streams.
type Streams struct {
	Time    time.Time `json:"time"`
	Version string    `json:"version"`
	// Loads are Linux's load averages of the minute before the benchmark and of its last minute.
	Loads [2]string `json:"loads"`
	// MB is the size of each transfer in megabytes.
	MB    int      `json:"mb"`
	Kinds []Stream `json:"kinds"`
	// Limited are the same kinds, with links of clusters that are limited.
	Limited []LimitedStreams `json:"limited,omitempty"`
}

// LimitedStreams is the result for links of a limited rate.
type LimitedStreams struct {
	// Mbit is the rate of each cluster's link in each direction, in megabits per second.
	Mbit  int      `json:"mbit"`
	Kinds []Stream `json:"kinds"`
}

// Rounds returns how often each kind was measured.
func (s *Streams) Rounds() int {
	if len(s.Kinds) == 0 {
		return 0
	}
	return len(s.Kinds[0].Virtual)
}

// Stream is what one kind of stream reaches, in megabytes per second, in each round.
type Stream struct {
	Kind     string    `json:"kind"`
	Virtual  []float64 `json:"by_virtual_node"`
	Directly []float64 `json:"directly"`
}

// Medians returns the medians by the virtual node and directly, and the ratio of the former to the latter.
func (s Stream) Medians() (virtual, directly, ratio float64) {
	virtual, directly = middleOf(s.Virtual), middleOf(s.Directly)
	if directly > 0 {
		ratio = virtual / directly
	}
	return virtual, directly, ratio
}

// Row returns the cells of a table: the kind, the medians, and their ratio.
func (s Stream) Row() string {
	virtual, directly, ratio := s.Medians()
	return fmt.Sprintf("| %s | %.0f MB/s | %.0f MB/s | %.2f × |", s.Kind, virtual, directly, ratio)
}

// middleOf returns the median, or 0 if there are no values.
func middleOf(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// streamsBudget compares the kind of stream that loses most.
func streamsBudget(s *Streams) Budget {
	b := Budget{
		What:   "throughput of streams by a virtual node",
		Budget: fmt.Sprintf("at least %.1f × directly in the target", leastThroughput),
		State:  notMeasured,
	}
	if s == nil || len(s.Kinds) == 0 {
		return b
	}
	worst := slices.MinFunc(s.Kinds, func(a, b Stream) int {
		_, _, first := a.Medians()
		_, _, second := b.Medians()
		return cmp.Compare(first, second)
	})
	_, _, ratio := worst.Medians()
	b.Text = fmt.Sprintf("%.2f × or more; least: %s (%s, version %s)",
		ratio, worst.Kind, s.Time.Format("2006-01-02"), s.Version)
	b.State = stateOf(ratio >= leastThroughput)
	return b
}
