package words

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestFunctionsOfTheWalkExist keeps "One pod, function by function" of architecture.md true: each function that its
// table names in backticks is declared in the code.
func TestFunctionsOfTheWalkExist(t *testing.T) {
	page, err := os.ReadFile("../../docs/design/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, walk, _ := strings.Cut(string(page), "\n## One pod, function by function\n")
	walk, _, _ = strings.Cut(walk, "\n## ")
	known := declaredFunctions(t)
	function := regexp.MustCompile("`(?:[a-z]+\\.)?(?:[A-Za-z]+\\.)?([A-Za-z]+)`")
	named := function.FindAllStringSubmatch(functionColumn(walk), -1)
	if len(named) < 20 {
		t.Fatalf("the table names %d functions", len(named))
	}
	for _, n := range named {
		if !known[n[1]] {
			t.Errorf("the table names %s, which is not declared", n[0])
		}
	}
}

// functionColumn returns the second column of a table.
func functionColumn(table string) string {
	var column strings.Builder
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			column.WriteString(cells[2])
		}
	}
	return column.String()
}

func declaredFunctions(t *testing.T) map[string]bool {
	t.Helper()
	functions := map[string]bool{}
	set := token.NewFileSet()
	for _, f := range files(t) {
		if !f.IsGo() {
			continue
		}
		syntax, err := parser.ParseFile(set, f.Path, f.Text(), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range syntax.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok {
				functions[f.Name.Name] = true
			}
		}
	}
	return functions
}
