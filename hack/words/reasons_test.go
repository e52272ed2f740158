package words

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEachReasonIsInThePages takes each constant whose name begins with Reason, of events, conditions and pods.
func TestEachReasonIsInThePages(t *testing.T) {
	var pages strings.Builder
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(raw)
	}
	reason := regexp.MustCompile(`(?m)^\s*[rR]eason\w+ *= "(\w+)"`)
	found := 0
	for _, f := range files(t) {
		if !f.IsGo() || strings.HasSuffix(f.Path, "_test.go") {
			continue
		}
		for _, match := range reason.FindAllStringSubmatch(read(t, f.Path), -1) {
			found++
			if !strings.Contains(pages.String(), "`"+match[1]) {
				t.Errorf("%s: no page says what `%s` means", f.Path, match[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("%d reasons were found", found)
	}
}
