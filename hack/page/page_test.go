package page

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyTheTextOfTheProgramIsReplaced(t *testing.T) {
	const (
		begins, ends = "<!-- Written by test/x: -->\n", "<!-- End of what test/x writes. -->\n"
		others       = "<!-- Written by test/y: -->\ny\n<!-- End of what test/y writes. -->\n"
	)
	for name, test := range map[string]struct{ before, after string }{
		"both lines": {
			before: "before\n" + begins + "old\n" + ends + others + "after\n",
			after:  "before\n" + begins + "\nnew\n\n" + ends + others + "after\n",
		},
		"nothing written yet":     {before: begins + ends, after: begins + "\nnew\n\n" + ends},
		"no lines":                {before: "before\n" + others},
		"the second line is gone": {before: begins + "old\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "page.md")
			if err := os.WriteFile(path, []byte(test.before), 0o600); err != nil {
				t.Fatal(err)
			}
			err := Write(path, "test/x", "new\n")
			got, _ := os.ReadFile(path)
			if test.after == "" {
				if err == nil || string(got) != test.before {
					t.Errorf("error %v, and the page is %q", err, got)
				}
				return
			}
			if err != nil || string(got) != test.after {
				t.Errorf("error %v, and the page is %q, want %q", err, got, test.after)
			}
		})
	}
}
