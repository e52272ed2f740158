package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

type options struct {
	kubeconfig, label, results, report, memory, following, streams string

	pods      []int
	sets      [][]string // of targets
	scenarios map[string]bool
	scale     float64
	repeat    int
}

// scaled returns the number of pods times the scale, and three at least.
func (o options) scaled(pods int) int { return max(3, int(float64(pods)*o.scale)) }

func parsePods(list string) ([]int, error) {
	var counts []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number of pods: give numbers, as in 100,500", s)
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// parseSets parses sets of targets, as in "c2;c1,c2,+3".
func parseSets(list string) ([][]string, error) {
	var sets [][]string
	for text := range strings.SplitSeq(list, ";") {
		var set []string
		for name := range strings.SplitSeq(text, ",") {
			if more, ok := strings.CutPrefix(name, "+"); ok {
				n, err := strconv.Atoi(more)
				if err != nil || n < 1 {
					return nil, fmt.Errorf("%q is not a number of further targets: give one, as in +7", name)
				}
				set = append(set, furtherNames(n)...)
				continue
			}
			if !slices.Contains(clusterNames(), name) {
				return nil, fmt.Errorf("%q is not a target: give some of %s, and +N for N further ones",
					name, strings.Join(clusterNames(), ", "))
			}
			set = append(set, name)
		}
		sets = append(sets, set)
	}
	return sets, nil
}

func parseScenarios(list string) (map[string]bool, error) {
	chosen := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(scenarioNames(), name) {
			return nil, fmt.Errorf("%q is not a scenario: give some of %s", name, strings.Join(scenarioNames(), ", "))
		}
		chosen[name] = true
	}
	return chosen, nil
}

// quoted returns the arguments, quoted for a shell.
func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = arg
		if strings.ContainsAny(arg, " ;&|") {
			out[i] = "'" + arg + "'"
		}
	}
	return out
}
