package words

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheIndexOfOperationsHasEachSection(t *testing.T) {
	page := read(t, metrics)
	index, _, _ := strings.Cut(page, "\n## ")
	for _, heading := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(index, "["+heading[1]+"](#") {
			t.Errorf("%s: the index lacks %q", metrics, heading[1])
		}
	}
}

// TestNoCommandOfThePagesGoesOnWithoutAnID looks at commands that select by the ID of a source. An empty ID selects
// nothing, without an error. The source may be dead, so the commands read the ID in the target.
func TestNoCommandOfThePagesGoesOnWithoutAnID(t *testing.T) {
	unsafe := regexp.MustCompile(`\$ID\b|\$\{ID\}|parent-cluster-id=<`)
	fromSource := regexp.MustCompile(`ID=\$\(kubectl --context c1 `)
	found := 0
	for page, text := range pages(t) {
		for i, block := range strings.Split(text, "```") {
			if i%2 == 0 || !strings.HasPrefix(block, "sh\n") {
				continue
			}
			if match := unsafe.FindString(block); match != "" {
				t.Errorf("%s: a command has %s, want ${ID:?}:\n%s", page, match, block)
			}
			if !strings.Contains(block, "parent-cluster-id=${ID:?}") {
				continue
			}
			found++
			if fromSource.MatchString(block) {
				t.Errorf("%s: a command asks the source for its ID, and the source may be dead:\n%s", page, block)
			}
		}
	}
	if found < 5 {
		t.Errorf("%d commands with an ID were found", found)
	}
}

// TestTheLogsThatPagesSearchForAreWritten looks for the texts after the option -e of grep.
func TestTheLogsThatPagesSearchForAreWritten(t *testing.T) {
	var code strings.Builder
	for _, f := range files(t) {
		if f.IsGo() && !strings.HasSuffix(f.Path, "_test.go") {
			code.WriteString(f.Text())
		}
	}
	found := 0
	for page, text := range pages(t) {
		for _, match := range regexp.MustCompile(` -e '([^']+)'`).FindAllStringSubmatch(text, -1) {
			found++
			if !strings.Contains(code.String(), match[1]) {
				t.Errorf("%s searches logs for %q, which no code writes", page, match[1])
			}
		}
	}
	if found == 0 {
		t.Errorf("no page searches logs")
	}
}

// pages returns the texts of the pages in docs, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, path := range paths {
		name := "docs/" + filepath.Base(path)
		all[name] = read(t, name)
	}
	return all
}
