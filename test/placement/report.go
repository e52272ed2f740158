package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/page"
)

// result is what came of a scenario.
type result struct {
	scenario scenario

	clusters, nodes int
	fleet, flat     figures
	// limited says that the fleet has quotas or queues, which the flat cluster does not have.
	limited bool
}

func header() []string {
	return []string{
		"scenario", "seed", "clusters", "nodes", "pods", "placed", "flat", "median", "p99", "flat", "longest", "flat",
		"retries", "conditions", "imbalance", "flat", "important", "flat", "preempted", "flat", "waited", "held",
		"starved", "gangs in part",
	}
}

func (r result) cells() []string {
	of := func(f figures) string { return fmt.Sprintf("%.1f %%", 100*float64(f.placed)/float64(f.pods)) }
	points := func(f figures) string { return fmt.Sprintf("%.1f", 100*f.imbalance) }
	return []string{
		r.scenario.name, fmt.Sprint(r.scenario.seed),
		fmt.Sprint(r.clusters), fmt.Sprint(r.nodes), fmt.Sprint(r.fleet.pods),
		of(r.fleet), of(r.flat),
		short(r.fleet.median), short(r.fleet.p99), short(r.flat.p99), short(r.fleet.longest), short(r.flat.longest),
		fmt.Sprintf("%.2f", r.fleet.retries), fmt.Sprintf("%.1f", r.fleet.conditions),
		points(r.fleet), points(r.flat),
		short(r.fleet.important), short(r.flat.important),
		fmt.Sprint(r.fleet.preempted), fmt.Sprint(r.flat.preempted),
		fmt.Sprint(r.fleet.waited), fmt.Sprint(r.fleet.held), fmt.Sprint(r.fleet.starved),
		fmt.Sprint(r.fleet.partGangs),
	}
}

// short returns a time with two or three digits.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "–"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// write replaces the table of a page.
func write(path string, results []result) error {
	return page.Write(path, "test/placement", table(results))
}

// table describes the scenarios, and has a row of figures for each result.
func table(results []result) string {
	var text strings.Builder
	row := func(cells ...string) { text.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line := func(cells int) { text.WriteString("|" + strings.Repeat("---|", cells) + "\n") }
	row("scenario", "what")
	line(2)
	described := map[string]bool{}
	for _, r := range results {
		if !described[r.scenario.name] {
			row(r.scenario.name, r.scenario.about)
		}
		described[r.scenario.name] = true
	}
	text.WriteString("\n")
	row(header()...)
	line(len(header()))
	for _, r := range results {
		row(r.cells()...)
	}
	return text.String()
}
