package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryBreakageStillBreaksOnePlace fails when the product has changed where a breakage is.
func TestEveryBreakageStillBreaksOnePlace(t *testing.T) {
	t.Chdir("../..")
	for _, b := range all() {
		if _, err := b.apply(); err != nil {
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
		suite, unseen, rule string
		missed              int
	}{
		"the suite notices":                      {suite: fails},
		"the suite notices what it has to":       {suite: fails, rule: "a promise"},
		"the suite notices something else":       {suite: fails, rule: "another promise", missed: 1},
		"the suite does not notice":              {suite: passes, missed: 1},
		"the suite does not, and there is a why": {suite: passes, unseen: "it does not look"},
	} {
		t.Run(name, func(t *testing.T) {
			suite(t, test.suite)
			table := []breakage{
				{
					name: "x", file: "file.go", from: "right", to: "wrong", clusters: true,
					unseen: test.unseen, rule: test.rule,
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

func TestThePageIsOfAllBreakagesInTheSimulation(t *testing.T) {
	l := look{table: all(), runs: 100, first: 7}
	var results []result
	for _, b := range l.table {
		if b.test != "" {
			results = append(results, result{b, "found after 3 runs: two | three"})
		}
	}
	text := l.text(results)
	for _, want := range []string{"100 runs of pods", "10 of copies", "5 of Services", "seed 7", `two \| three`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, b := range l.table {
		if n := strings.Count(text, "| `"+b.name+"`: "+b.does+" |"); (n == 1) != (b.test != "") {
			t.Errorf("the page has %q %d times", b.name, n)
		}
	}
	for name, some := range map[string]look{
		"on clusters": {page: "page.md", clusters: true},
		"only some":   {page: "page.md", names: []string{"x"}},
	} {
		if _, err := some.all(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
