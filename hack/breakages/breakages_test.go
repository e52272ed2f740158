package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryBreakageStillBreaksItsPlaces fails when the product has changed where a breakage is.
func TestEveryBreakageStillBreaksItsPlaces(t *testing.T) {
	t.Chdir("../..")
	for _, b := range all() {
		if _, err := b.overlay(t.TempDir()); err != nil {
			t.Error(err)
		}
		if b.does == "" {
			t.Errorf("%s does not say what the broken product does", b.name)
		}
	}
}

// suite is a folder with a fake go program, which is the suite of faults, and with a fake make.
func suite(t *testing.T, script string) {
	t.Helper()
	folder := t.TempDir()
	for name, does := range map[string]string{"go": script, "make": "exit 0"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/usr/bin/env bash\n"+does), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	if err := os.WriteFile("file.go", []byte("right"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhichBreakagesAreMissedOnClusters(t *testing.T) {
	const passes, fails = "exit 0", `echo "12:00:00 BROKEN: not found: a promise"; exit 1`
	for name, test := range map[string]struct {
		suite, unseen, rule, orRule string
		missed                      int
	}{
		"the suite notices":                      {suite: fails},
		"the suite notices what it has to":       {suite: fails, rule: "a promise"},
		"the suite notices what may come first":  {suite: fails, rule: "another promise", orRule: "a promise"},
		"the suite notices something else":       {suite: fails, rule: "another promise", orRule: "a third", missed: 1},
		"the suite does not notice":              {suite: passes, missed: 1},
		"the suite does not, and there is a why": {suite: passes, unseen: "it does not look"},
	} {
		t.Run(name, func(t *testing.T) {
			suite(t, test.suite)
			table := []breakage{
				{
					name: "x", file: "file.go", from: "right", to: "wrong", clusters: true,
					unseen: test.unseen, rule: test.rule, orRule: test.orRule,
				},
				{name: "y", file: "none.go", test: pods},
			}
			l := look{table: table, clusters: true}
			missed, err := l.all(context.WithoutCancel(t.Context()))
			if err != nil || missed != test.missed {
				t.Errorf("missed are %d, want %d: %v", missed, test.missed, err)
			}
		})
	}
}

// TestEachReasonIsOfATestThatLooks fails when a breakage says why a test misses it that does not try it.
func TestEachReasonIsOfATestThatLooks(t *testing.T) {
	for _, b := range all() {
		if b.unseen != "" && !b.clusters || b.missed != "" && b.test == "" || b.test == "" && !b.clusters {
			t.Errorf("%s: clusters %t, test %q, missed %q, unseen %q", b.name, b.clusters, b.test, b.missed, b.unseen)
		}
	}
}

const aPage = "before\n<!-- Written by hack/breakages: -->\n%s<!-- End of what hack/breakages writes. -->\nafter\n"

func TestThePageKeepsWhatIsNotTriedAgain(t *testing.T) {
	table := []breakage{
		{name: "again", does: "one", test: pods},
		{name: "earlier", does: "two, said in other words", test: pods},
		{name: "missed", does: "three", test: pods, missed: "the reason of today"},
		{name: "found", does: "four", test: pods, missed: "no run came to it"},
		{name: "never", does: "five", test: copies},
		{name: "on-clusters", does: "six", clusters: true},
	}
	before := "| `again`: one | not found |\n| `earlier`: two | found after 3 runs: a \\| b |\n" +
		"| `missed`: three | not found in 10 runs, from seed 7: the reason of yesterday |\n" +
		"| `found`: four | found after 9 runs: c |\n| `gone`: seven | found after 2 runs: d |\n"
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, fmt.Appendf(nil, aPage, before), 0o600); err != nil {
		t.Fatal(err)
	}
	l := look{table: table, page: path}
	if err := l.write([]result{{table[0], "found after 1,234 runs: x | y"}}); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for row := range strings.Lines(string(written)) {
		if strings.HasPrefix(row, "| `") {
			rows = append(rows, row)
		}
	}
	want := []string{
		"| `again`: one | found after 1,234 runs: x \\| y |\n",
		"| `earlier`: two, said in other words | found after 3 runs: a \\| b |\n",
		"| `missed`: three | not found in 10 runs, from seed 7: the reason of today |\n",
		"| `found`: four | found after 9 runs: c |\n",
		"| `never`: five | not tried yet |\n",
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want, +got):\n%s", diff)
	}
}

// TestThePageIsThatOfTheTable fails when somebody changes the table, or what the program writes in the page, alone.
func TestThePageIsThatOfTheTable(t *testing.T) {
	committed, err := os.ReadFile("../../docs/design/breakages.md")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, committed, 0o600); err != nil {
		t.Fatal(err)
	}
	l := look{table: all(), page: path}
	if err := l.write(nil); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), string(committed)); diff != "" {
		t.Errorf("the page (-as the program writes it, +as it is):\n%s", diff)
	}
}

func TestThePageIsOfTheSimulation(t *testing.T) {
	if _, err := (look{page: "page.md", clusters: true}).all(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestAFindingSaysWhatItTook(t *testing.T) {
	for want, f := range map[string]finding{
		"not found in 300 runs":                           {runs: 300, first: 1},
		"not found in 3,000 runs, from seed 1,000":        {runs: 3000, first: 1000},
		"found after 1,001,007 runs: two delegates":       {after: 1001007, first: 1, what: "two delegates"},
		"found after 12 runs, from seed 7: two delegates": {after: 12, runs: 300, first: 7, what: "two delegates"},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
