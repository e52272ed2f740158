package words

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/prose"
)

// maxWords is the number of words that the glossary may explain, so that a newcomer can learn them.
const maxWords = 50

func TestTheGlossaryIsShortAndHasEachWordOnce(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, glossary))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	seen := map[string]bool{}
	for i, line := range strings.Split(string(raw), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.Trim(cells[1], " -") == "" || strings.TrimSpace(cells[1]) == "word" {
			continue
		}
		rows++
		for word := range strings.SplitSeq(cells[1], ",") {
			word = strings.TrimSpace(word)
			if seen[word] {
				t.Errorf("%s:%d: %q is explained twice", glossary, i+1, word)
			}
			seen[word] = true
		}
	}
	if rows == 0 || rows > maxWords {
		t.Errorf("%s explains %d words, want 1 to %d", glossary, rows, maxWords)
	}
}

// TestNoLineIsTooLong checks Markdown and comments. The linter lll checks code.
func TestNoLineIsTooLong(t *testing.T) {
	for _, f := range files(t) {
		for _, line := range prose.LongLines(f) {
			if line.Code {
				continue
			}
			t.Errorf("%s:%d: %d columns, the limit is %d", f.Path, line.Number, line.Columns, prose.MaxColumns)
		}
	}
}
