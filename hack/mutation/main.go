package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// options are those of the command line.
type options struct {
	only, explained string
	least           int
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "try only mutants whose FILE:LINE:COLUMN KIND match this `expression`")
	flag.IntVar(&o.least, "least", 90,
		"fail if less than this `percentage` of a package's mutants is killed or explained")
	flag.StringVar(&o.explained, "explained", "hack/mutation/explained.txt", "the `file` with the explained mutants")
	flag.Parse()
	enough, err := look(context.Background(), os.Stdout, flag.Args(), o)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutation: %v\n", err)
		os.Exit(2)
	}
	if !enough {
		os.Exit(1)
	}
}

// sums are the figures of one package.
type sums struct {
	folder                                                 string
	mutants, killed, timedOut, explained, living, notTried int
}

func (s sums) percentage() int { return 100 * (s.killed + s.explained) / max(s.mutants, 1) }

// look tests the packages, and reports whether enough of the mutants of each are killed or explained.
func look(ctx context.Context, out io.Writer, folders []string, o options) (bool, error) {
	chosen, err := regexp.Compile(o.only)
	if err != nil {
		return false, fmt.Errorf("reading -only: %w", err)
	}
	explanations, err := readExplanations(o.explained)
	if err != nil {
		return false, err
	}
	var all []sums
	for _, folder := range folders {
		s, err := lookAt(ctx, out, path.Clean(filepath.ToSlash(folder)), chosen, explanations)
		if err != nil {
			printSums(out, all)
			return false, err
		}
		all = append(all, s)
	}
	printSums(out, all)
	for _, e := range explanations {
		if o.only == "" && !e.used && slices.Contains(folders, path.Dir(e.file)) {
			fmt.Fprintf(out, "explains no living mutant: %s\n", e.text)
		}
	}
	return !slices.ContainsFunc(all, func(s sums) bool { return s.percentage() < o.least }), nil
}

// lookAt tests one package, and prints the mutants that live.
func lookAt(
	ctx context.Context, out io.Writer, folder string, chosen *regexp.Regexp, explanations []*explanation,
) (sums, error) {
	s := sums{folder: folder}
	temporary, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return s, fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(temporary)
	p, err := build(ctx, folder, temporary)
	if err != nil {
		return s, err
	}
	if err := p.runUnchanged(ctx); err != nil {
		return s, err
	}
	s.notTried = p.notTried
	for _, m := range p.mutants {
		if chosen.MatchString(m.String()) {
			s.count(out, m, p.run(ctx, m), explanations)
		}
	}
	return s, nil
}

func (s *sums) count(out io.Writer, m mutant, f fate, explanations []*explanation) {
	s.mutants++
	switch {
	case f == killed:
		s.killed++
	case f == timedOut:
		s.killed++
		s.timedOut++
	case explain(explanations, m):
		s.explained++
	default:
		s.living++
		fmt.Fprintf(out, "%s %s\n\t%s: %s\n", m, f, m.function, m.line)
	}
}

// printSums prints the table of docs/design/mutation.md.
func printSums(out io.Writer, all []sums) {
	const row = "| %s | %v | %v | %v | %v | %v | %d %% |\n"
	fmt.Fprintln(out, "| package | mutants | killed | of them by time-out | explained | living | killed or explained |")
	fmt.Fprintln(out, strings.Repeat("|---", 7)+"|")
	var total sums
	for _, s := range all {
		fmt.Fprintf(out, row, "`"+s.folder+"`", s.mutants, s.killed, s.timedOut, s.explained, s.living, s.percentage())
		total.mutants += s.mutants
		total.killed += s.killed
		total.timedOut += s.timedOut
		total.explained += s.explained
		total.living += s.living
		total.notTried += s.notTried
	}
	fmt.Fprintf(out, row, "all", total.mutants, total.killed, total.timedOut, total.explained, total.living,
		total.percentage())
	fmt.Fprintf(out, "%d mutants of constants were not tried\n", total.notTried)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
