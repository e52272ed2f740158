package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const folder = "testdata/tiny"

// explanations is a file of explanations with one that holds, one of a whole function, and one that is old.
const explanations = `The absolute value of 0 is 0 either way.
	testdata/tiny/tiny.go Abs CONDITIONALS_BOUNDARY if n < 0 {
Nobody looks.
	testdata/tiny/tiny.go Both
It was changed.
	testdata/tiny/tiny.go Gone
`

func TestLivingMutantsAreListed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "explained.txt")
	if err := os.WriteFile(file, []byte(explanations), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	enough, err := look(t.Context(), &out, []string{folder}, options{explained: file, least: 84})
	if err != nil {
		t.Fatal(err)
	}
	if enough {
		t.Error("83 % of the mutants are as good as 84 %")
	}
	got := slices.DeleteFunc(strings.Split(out.String(), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "| package") || strings.HasPrefix(line, "|--")
	})
	want := []string{
		"testdata/tiny/tiny.go:9:13 ARITHMETIC_BASE lives",
		"testdata/tiny/tiny.go:9:26 ARITHMETIC_BASE lives",
		"testdata/tiny/tiny.go:40:14 CONDITIONALS_BOUNDARY lives",
		"testdata/tiny/tiny.go:43:16 ARITHMETIC_BASE lives: no test reaches it",
		"| `testdata/tiny` | 24 | 15 | 1 | 5 | 4 | 83 % |",
		"| all | 24 | 15 | 1 | 5 | 4 | 83 % |",
		"1 mutants of constants were not tried",
		"explains no living mutant: testdata/tiny/tiny.go Gone",
		"",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s\n%s", diff, out.String())
	}
}

// TestAPackageWithoutTestsIsNamed wants the table of the packages before it, too.
func TestAPackageWithoutTestsIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "explained.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	chosen := options{explained: file, only: "tiny.go:9"}
	_, err := look(t.Context(), &out, []string{folder, "testdata/untested"}, chosen)
	if err == nil || !strings.Contains(err.Error(), "testdata/untested has no unit tests") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(out.String(), "| `testdata/tiny` |") {
		t.Errorf("the table is %s", out.String())
	}
}

func TestOnlyChosenMutantsAreTried(t *testing.T) {
	var out strings.Builder
	enough, err := look(t.Context(), &out, []string{folder}, options{`:1[345]:.*NEG`, os.DevNull, 100})
	if err != nil {
		t.Fatal(err)
	}
	if want := "| `testdata/tiny` | 2 | 2 | 0 | 0 | 0 | 100 % |\n"; !enough || !strings.Contains(out.String(), want) {
		t.Errorf("all chosen mutants killed: %v, want true; output:\n%s\nwant %s", enough, out.String(), want)
	}
}
