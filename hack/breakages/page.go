package main

import (
	"fmt"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/page"
)

// result is what the simulation said about a breakage.
type result struct {
	breakage

	text string
}

// write writes the results to the page, if there is one.
func (l look) write(results []result) error {
	if l.page == "" {
		return nil
	}
	return page.Write(l.page, "hack/breakages", l.text(results))
}

func (l look) text(results []result) string {
	var text strings.Builder
	fmt.Fprintf(&text, "At most %d runs of pods or Leases, %d of copies, or %d of Services, from seed %d.\n",
		l.runs, l.runs/partOf(copies), l.runs/partOf(served), l.first)
	for _, simulation := range []struct{ test, title string }{
		{pods, "Pods"}, {leases, "Leases"}, {copies, "Copies and claims"}, {served, "Services and Ingresses"},
	} {
		fmt.Fprintf(&text, "\n### %s\n\n| breakage | the simulation |\n|---|---|\n", simulation.title)
		for _, r := range results {
			if r.test == simulation.test {
				fmt.Fprintf(&text, "| `%s`: %s | %s |\n", r.name, r.does, strings.ReplaceAll(r.text, "|", "\\|"))
			}
		}
	}
	return text.String()
}

// partOf returns of how many runs that are asked for a test does one.
func partOf(test string) int { return max(1, map[string]int{copies: 10, served: 20}[test]) }
