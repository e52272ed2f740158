// Package page lets programs write their results into pages of the documentation, between two lines that say so. So
// the tables are those of a run, and the prose around them is written by hand.
package page

import (
	"fmt"
	"os"
	"strings"
)

// Write replaces the text between the two lines of a program in the Markdown page at path. The program is named by its
// folder, as in "test/faults". The page must have both lines:
//
//	<!-- Written by test/faults: -->
//	<!-- End of what test/faults writes. -->
func Write(path, program, text string) error {
	begins := "<!-- Written by " + program + ": -->\n"
	ends := "<!-- End of what " + program + " writes. -->\n"
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	before, rest, found := strings.Cut(string(content), begins)
	_, after, ended := strings.Cut(rest, ends)
	if !found || !ended {
		return fmt.Errorf("%s has no place for the results: a line %q and a line %q", path, begins, ends)
	}
	written := before + begins + "\n" + text + "\n" + ends + after
	if err := os.WriteFile(path, []byte(written), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
