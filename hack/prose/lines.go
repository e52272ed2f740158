package prose

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// MaxColumns is the length of the longest line that is allowed.
	MaxColumns = 120
	// TabWidth is the distance of tab stops, in columns.
	TabWidth = 4
)

var (
	comment = regexp.MustCompile(`^\s*//`)
	// unbreakable matches the lines of Markdown that cannot be broken: rows of tables, links, pictures and HTML.
	unbreakable = regexp.MustCompile(`^\s*(\||\[|<|!)`)
	fence       = regexp.MustCompile("^\\s*```")
	// marker matches the comments that controller-gen, the compiler or the linter reads from one line.
	marker = regexp.MustCompile(`^\s*//(go:|nolint|\s?\+)`)
)

// Line is a line that is too long.
type Line struct {
	Number  int
	Columns int
	// Code is true for a line of Go code, and false for a comment or Markdown.
	Code bool
}

// LongLines returns the lines of the file past MaxColumns, except those that cannot be broken: tables, links and code
// blocks in Markdown, and comments in Go that a program reads.
func LongLines(f File) []Line {
	var long []Line
	fenced := false
	for i, line := range f.Lines {
		exempt := f.IsGo() && marker.MatchString(line)
		if !f.IsGo() {
			if fence.MatchString(line) {
				fenced = !fenced
			}
			exempt = fenced || unbreakable.MatchString(line)
		}
		if columns := Columns(line); columns > MaxColumns && !exempt {
			long = append(long, Line{Number: i + 1, Columns: columns, Code: f.IsGo() && !comment.MatchString(line)})
		}
	}
	return long
}

// Columns returns the number of columns that a line takes.
func Columns(line string) int {
	columns := 0
	for i, part := range strings.Split(line, "\t") {
		if i > 0 {
			columns += TabWidth - columns%TabWidth
		}
		columns += utf8.RuneCountInString(part)
	}
	return columns
}
