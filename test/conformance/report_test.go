package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func exampleReport() report {
	common := &justification{Name: "scheduler", Cases: ".*", Kind: byDesign, Why: "because"}
	own := &justification{Name: "events", Cases: "b", Kind: notYet, Why: "events | are\n  not there"}
	manifest := func(name string, by ...*justification) result {
		return result{by: by, testCase: &testCase{
			name: name, topic: "Topic", what: "what " + name, fields: []string{"spec.both", "spec." + name},
		}}
	}
	return report{
		source: "v1", target: "v2", on: time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC),
		list: []*justification{common, own},
		results: []result{
			manifest("a", common), manifest("b", common, own),
			{testCase: &testCase{name: "act", topic: "kubectl act", what: "acts"}},
		},
	}
}

func TestReportSaysWhatIsTheSame(t *testing.T) {
	text := exampleReport().text()
	for _, line := range []string{
		"Source: Kubernetes v1. Target: Kubernetes v2. Run on 2 January 2030.",
		"2 manifests and 1 actions, 2 are the same but for the differences that all pods have. 1 differ in more.",
		"| D01 | all pods | scheduler | because |",
		`| D02 | some | events | **Does not work yet.** events \| are not there |`,
		"| `a` | what a | the same |", "| `b` | what b | differ: D02 |", "| `act` | acts | the same |",
		"| `spec.a` | 1 | the same |", "| `spec.b` | 1 | differ: D02 |", "| `spec.both` | 2 | the same |",
	} {
		if strings.Count(text, line) != 1 {
			t.Errorf("%q is not in the report once:\n%s", line, text)
		}
	}
}

func TestResultsOfSeveralRunsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	cases := []*testCase{{name: "a"}, {name: "b"}, {name: "c"}}
	run := func(results ...result) {
		known, err := readResults(file)
		if err != nil {
			t.Fatal(err)
		}
		known.merge(recordsOf(results, "v1", "v2"))
		if err := known.write(file); err != nil {
			t.Fatal(err)
		}
	}
	differs := result{testCase: cases[1], found: []difference{{Field: "x"}}}
	run(result{testCase: cases[0], broken: errDifferences}, differs)
	run(result{testCase: cases[0]})
	known, err := readResults(file)
	if err != nil {
		t.Fatal(err)
	}
	got := known.of(cases, nil)
	if len(got) != 2 || got[0].broken != nil || len(got[1].rest) != 1 {
		t.Errorf("got %v", got)
	}
}
