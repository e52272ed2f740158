package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	runs := flag.Int("runs", 10000, "how many runs are done at most with each breakage")
	first := flag.Int("first", 1, "the seed of the first run")
	path := flag.String("page", "", "a page in which to write the results")
	clusters := flag.Bool("clusters", false, "look on the real clusters of this checkout, by the suite of faults")
	flag.Parse()
	l := look{table: all(), names: flag.Args(), clusters: *clusters, runs: *runs, first: *first, page: *path}
	missed, err := l.all(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if missed > 0 {
		fmt.Printf("%d breakages were not found\n", missed)
		os.Exit(1)
	}
}

// look says which breakages to try, and how.
type look struct {
	table       []breakage
	names       []string // none for all
	clusters    bool
	runs, first int
	page        string // or empty
}

// all tries the breakages, and returns how many were not found that should be. It writes the page.
func (l look) all(ctx context.Context) (missed int, err error) {
	if l.page != "" && l.clusters {
		return 0, errors.New("-page is for the simulation: leave out -clusters")
	}
	var results []result
	for _, b := range l.table {
		chosen := len(l.names) == 0 || slices.Contains(l.names, b.name)
		if !chosen || l.clusters && !b.clusters || !l.clusters && b.test == "" {
			continue
		}
		found, text, err := l.try(ctx, b)
		if err != nil {
			return missed, fmt.Errorf("%s: %w", b.name, err)
		}
		fmt.Printf("%-24s %s\n", b.name, text)
		results = append(results, result{b, text})
		if !found && b.reason(l.clusters) == "" {
			missed++
		}
	}
	if l.clusters {
		return missed, load(ctx) // the product as it is
	}
	return missed, l.write(results)
}

// try tries a breakage on clusters or in the simulation. It returns whether it was found, and what to print.
func (l look) try(ctx context.Context, b breakage) (found bool, text string, err error) {
	if l.clusters {
		found, text, err = tryOnClusters(ctx, b)
	} else {
		var f finding
		f, err = simulate(ctx, b, l.runs, l.first)
		found, text = f.after > 0, f.String()
	}
	if reason := b.reason(l.clusters); reason != "" && !found {
		text += ": " + reason
	}
	return found, text, err
}

// finding is what the simulation said about a breakage.
type finding struct {
	after, runs int // after is 0 if no run failed
	first       int // the seed of the first run
	what        string
}

func (f finding) String() string {
	seed := ""
	if f.first != 1 {
		seed = ", from seed " + thousands(f.first)
	}
	if f.after == 0 {
		return "not found in " + thousands(f.runs) + " runs" + seed
	}
	return "found after " + thousands(f.after) + " runs" + seed + ": " + f.what
}

// thousands returns a number as it is written in prose.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// simulate runs the simulation with the breakage.
func simulate(ctx context.Context, b breakage, runs, first int) (finding, error) {
	folder, err := os.MkdirTemp("", "breakage")
	if err != nil {
		return finding{}, err
	}
	defer os.RemoveAll(folder)
	test := filepath.Join(folder, "simulation.test")
	if err := build(ctx, b, folder, test); err != nil {
		return finding{}, err
	}
	simulation := exec.CommandContext(ctx, test, "-test.run", "^"+b.test+"$", "-test.timeout", "1h")
	simulation.Dir = "test/simulation"
	simulation.Env = append(os.Environ(), "SIMULATION_RUNS="+strconv.Itoa(runs),
		"SIMULATION_FIRST="+strconv.Itoa(first), "SIMULATION_SHRINK=0s")
	output, err := simulation.CombinedOutput()
	f := finding{runs: runs / partOf(b.test), first: first}
	if err == nil {
		return f, nil
	}
	f.after, f.what = read(string(output))
	if f.after == 0 {
		return f, fmt.Errorf("the simulation does not run: %w\n%s", err, output)
	}
	return f, nil
}

// build builds the simulation with the breakage.
func build(ctx context.Context, b breakage, folder, test string) error {
	overlay, err := b.overlay(folder)
	if err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-c", "-o", test, "./test/simulation").
		CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}

// apply returns the place's file with the breakage.
func (p place) apply() ([]byte, error) {
	content, err := os.ReadFile(p.file)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(content), p.from); n != 1 {
		return nil, fmt.Errorf("%s has the text of a breakage %d times, and not once:\n%s", p.file, n, p.from)
	}
	return []byte(strings.Replace(string(content), p.from, p.to, 1)), nil
}

var (
	failedRun = regexp.MustCompile(`run (\d+) failed`)
	violation = regexp.MustCompile(`_test\.go:\d+: (.*), with SIMULATION_SEED=`)
)

// read returns after how many runs the simulation failed first, and why.
func read(output string) (after int, what string) {
	for _, match := range failedRun.FindAllStringSubmatch(output, -1) {
		if n, err := strconv.Atoi(match[1]); err == nil && (after == 0 || n < after) {
			after = n
		}
	}
	if match := violation.FindStringSubmatch(output); match != nil {
		what = match[1]
	}
	return after, what
}
