package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/prose"
)

// finding is a line or a sentence that is too long.
type finding struct {
	size  int
	place string
	text  string
}

// printProse prints the figures of the comments and of Markdown, and how many lines of Go code are too long.
func printProse(out io.Writer, files []prose.File, list bool) {
	var lines, code, sentences []finding
	words, total := 0, 0
	for _, f := range files {
		for _, line := range prose.LongLines(f) {
			found := finding{size: line.Columns, place: fmt.Sprintf("%s:%d", f.Path, line.Number)}
			if line.Code {
				code = append(code, found)
			} else {
				lines = append(lines, found)
			}
		}
		for _, s := range prose.Sentences(f) {
			total++
			words += s.Words
			if s.Words > prose.MaxWords {
				sentences = append(sentences, finding{s.Words, fmt.Sprintf("%s:%d", f.Path, s.Number), s.Text})
			}
		}
	}
	fmt.Fprintln(out, "Prose (comments and Markdown)")
	fmt.Fprintf(out, "  sentences: %d, of %.1f words\n", total, float64(words)/float64(max(total, 1)))
	printFindings(out, fmt.Sprintf("sentences past %d words", prose.MaxWords), "words", sentences, list)
	printFindings(out, fmt.Sprintf("lines past %d columns", prose.MaxColumns), "columns", lines, list)
	printFindings(out, fmt.Sprintf("lines of Go code past %d columns", prose.MaxColumns), "columns", code, list)
}

func printFindings(out io.Writer, title, unit string, findings []finding, list bool) {
	fmt.Fprintf(out, "  %s: %d\n", title, len(findings))
	slices.SortStableFunc(findings, func(a, b finding) int { return cmp.Compare(b.size, a.size) })
	for _, f := range findings {
		if list {
			fmt.Fprintf(out, "    %4d %s  %s  %.100s\n", f.size, unit, f.place, f.text)
		}
	}
}
