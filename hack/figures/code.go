package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"io"
	"math"
	"slices"
	"sort"
	"strings"
)

// Functions and files above these lengths are listed.
const (
	longFunction = 40
	longFile     = 400
)

// span is a function or a file, with its length in lines.
type span struct {
	place string
	lines int
}

// figures are those of the code, or those of the tests.
type figures struct {
	functions, files []span
	// total counts all lines, written those that are not blank, comments those that hold nothing but a comment.
	total, written, comments int
	names                    []sharedName
}

// measure returns the figures of the code and those of the tests.
func measure(sources []source) (code, tests figures) {
	var ofCode, ofTests []source
	for _, s := range sources {
		if s.isTest() {
			tests.add(s)
			ofTests = append(ofTests, s)
		} else {
			code.add(s)
			ofCode = append(ofCode, s)
		}
	}
	code.names, tests.names = sharedNames(ofCode), sharedNames(ofTests)
	return code, tests
}

func (f *figures) add(s source) {
	f.files = append(f.files, span{s.Path, len(s.Lines)})
	f.total += len(s.Lines)
	for _, line := range s.Lines {
		if strings.TrimSpace(line) != "" {
			f.written++
		}
	}
	f.comments += commentLines(s)
	for _, declaration := range s.syntax.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		first, last := s.line(function.Pos()), s.line(function.End())
		place := fmt.Sprintf("%s:%d %s", s.Path, first, function.Name.Name)
		f.functions = append(f.functions, span{place, last - first + 1})
	}
}

// commentLines counts the lines that hold nothing but a comment.
func commentLines(s source) int {
	count := 0
	for _, group := range s.syntax.Comments {
		for _, c := range group.List {
			first, last := s.line(c.Pos()), s.line(c.End())
			if before := s.Lines[first-1][:s.set.Position(c.Pos()).Column-1]; strings.TrimSpace(before) != "" {
				first++
			}
			count += max(last-first+1, 0)
		}
	}
	return count
}

func printCode(out io.Writer, title string, f figures, list bool) {
	fmt.Fprintf(out, "%s: %d lines, %.0f %% of those that are not blank hold only a comment\n",
		title, f.total, 100*float64(f.comments)/float64(max(f.written, 1)))
	printSpans(out, "functions", f.functions, longFunction, list)
	printSpans(out, "files", f.files, longFile, list)
	printNames(out, f.names, list)
	fmt.Fprintln(out)
}

func printSpans(out io.Writer, title string, spans []span, limit int, list bool) {
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.lines, b.lines) })
	long := spans[countUpTo(spans, limit):]
	fmt.Fprintf(out, "  %s: %d; lines: median %d, 90th percentile %d, longest %d; %d past %d lines\n", title,
		len(spans), percentile(spans, 50), percentile(spans, 90), percentile(spans, 100), len(long), limit)
	for _, s := range slices.Backward(long) {
		if list {
			fmt.Fprintf(out, "    %4d lines  %s\n", s.lines, s.place)
		}
	}
}

// countUpTo returns how many of the sorted spans have at most limit lines.
func countUpTo(sorted []span, limit int) int {
	return sort.Search(len(sorted), func(i int) bool { return sorted[i].lines > limit })
}

// percentile returns the length that the given percentage of the sorted spans do not exceed (nearest rank).
func percentile(sorted []span, percent int) int {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(float64(percent) / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1].lines
}
