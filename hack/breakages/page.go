package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/page"
)

// result is what the simulation said about a breakage.
type result struct {
	breakage

	text string
}

// write writes the results to the page, if there is one. Of the other breakages, the page says what it said before.
func (l look) write(results []result) error {
	if l.page == "" {
		return nil
	}
	before, err := os.ReadFile(l.page)
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	said := rowsOf(string(before))
	for _, r := range results {
		said[r.name] = strings.ReplaceAll(r.text, "|", "\\|")
	}
	return page.Write(l.page, "hack/breakages", l.text(said))
}

// text returns the tables of all breakages in the simulation, given what was said of each.
func (l look) text(said map[string]string) string {
	var text strings.Builder
	text.WriteString("Each row is of the last series of runs that tried its breakage. " +
		"A series ends when a run fails.\n")
	for _, simulation := range []struct{ test, title string }{
		{pods, "Pods"}, {leases, "Leases"}, {fenced, "Fencing"}, {copies, "Copies and claims"},
		{served, "Services and Ingresses"},
	} {
		fmt.Fprintf(&text, "\n### %s\n\n| breakage | the simulation |\n|---|---|\n", simulation.title)
		for _, b := range l.table {
			if b.test == simulation.test {
				fmt.Fprintf(&text, "| `%s`: %s | %s |\n", b.name, b.does, b.explained(said[b.name]))
			}
		}
	}
	return text.String()
}

var tried = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)`: .* \\| (.*) \\|$")

// rowsOf returns what a page says of each breakage.
func rowsOf(page string) map[string]string {
	said := map[string]string{}
	for _, row := range tried.FindAllStringSubmatch(page, -1) {
		said[row[1]] = row[2]
	}
	return said
}

// explained returns what was said of a breakage, with the reason of today if it was not found.
func (b breakage) explained(said string) string {
	switch {
	case said == "":
		return "not tried yet"
	case b.missed == "" || !strings.HasPrefix(said, "not found"):
		return said
	}
	result, _, _ := strings.Cut(said, ": ")
	return result + ": " + b.missed
}

// partOf returns of how many runs that are asked for a test does one.
func partOf(test string) int { return max(1, map[string]int{fenced: 10, copies: 10, served: 20}[test]) }
