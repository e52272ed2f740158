package wire

import (
	"strings"
	"unicode"
)

// Shorten returns the first bytes of a text of a target, on one line and without characters that are not printed, for
// conditions, events and logs.
func Shorten(text string, bytes int) string {
	if len(text) > 4*bytes {
		text = text[:4*bytes] // Do not map megabytes.
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, text)
	if len(text) <= bytes {
		return text
	}
	const mark = "..."
	return strings.ToValidUTF8(text[:bytes-len(mark)], "") + mark
}
