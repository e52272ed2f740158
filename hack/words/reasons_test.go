package words

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEachReasonOfAnEventIsInThePages takes each constant of a package's events.go, and each Reason of the API.
func TestEachReasonOfAnEventIsInThePages(t *testing.T) {
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
		if filepath.Base(f.Path) != "events.go" && f.Path != "api/v1alpha1/conditions.go" {
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
