package prose

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxColumns is the length of the longest line that is not too long. A tab reaches to the next multiple of TabWidth.
const (
	MaxColumns = 120
	TabWidth   = 4
)

var (
	comment = regexp.MustCompile(`^\s*//`)
	// unbreakable is a line of Markdown that cannot be broken: a table's, a link's or picture's, or HTML.
	unbreakable = regexp.MustCompile(`^\s*(\||\[|<|!)`)
	fence       = regexp.MustCompile("^\\s*```")
	// marker is a comment that controller-gen, the compiler or the linter reads, on one line.
	marker = regexp.MustCompile(`^\s*//(go:|nolint|\s?\+)`)
)

// Line is a line that is too long.
type Line struct {
	Number  int
	Columns int
	// Code says that it is a line of Go code, not of a comment or of Markdown.
	Code bool
}

// LongLines returns the lines of the file past MaxColumns, except those that cannot be broken: in Markdown, tables, links
// and code blocks; in Go, comments that a program reads.
func LongLines(f File) []Line {
	var long []Line
	fenced := false
	for i, line := range f.Lines {
		if !f.IsGo() && fence.MatchString(line) {
			fenced = !fenced
			continue
		}
		columns := Columns(line)
		if columns <= MaxColumns || !f.IsGo() && (fenced || unbreakable.MatchString(line)) || f.IsGo() && marker.MatchString(line) {
			continue
		}
		long = append(long, Line{Number: i + 1, Columns: columns, Code: f.IsGo() && !comment.MatchString(line)})
	}
	return long
}

// Columns returns the width of a line, in characters.
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
