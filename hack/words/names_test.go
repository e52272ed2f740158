package words

import (
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/prose"
)

// root is the root of the repository.
const root = "../.."

// glossary is the page that lists the words. It names those that are not used, too.
const glossary = "docs/glossary.md"

func files(t *testing.T) []prose.File {
	t.Helper()
	files, err := prose.Files(root)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestRetiredNamesDoNotComeBack(t *testing.T) {
	folders := map[string]bool{}
	for _, f := range files(t) {
		for folder := path.Dir(f.Path); folder != "." && !folders[folder]; folder = path.Dir(folder) {
			folders[folder] = true
			report(t, folder, name{text: path.Base(folder), topLevel: true})
		}
		report(t, f.Path, name{text: strings.TrimSuffix(path.Base(f.Path), path.Ext(f.Path)), topLevel: true})
		if !f.IsGo() {
			continue
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, f.Path, f.Text(), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range declared(syntax) {
			n.topLevel = n.topLevel && !strings.HasSuffix(f.Path, "_test.go")
			report(t, fmt.Sprintf("%s:%d", f.Path, set.Position(n.pos).Line), n)
		}
	}
}

func report(t *testing.T, place string, n name) {
	t.Helper()
	if found, instead := n.retired(); found != "" {
		t.Errorf("%s: %s: the word %q is retired: use %s", place, n.text, found, instead)
	}
}

func TestRetiredWordsDoNotComeBackInTexts(t *testing.T) {
	for _, f := range files(t) {
		if f.Path == glossary {
			continue
		}
		for _, s := range prose.Sentences(f) {
			for _, r := range retiredTexts() {
				if found := r.pattern.FindString(s.Text); found != "" {
					t.Errorf("%s:%d: %q is retired: use %s", f.Path, s.Number, found, r.instead)
				}
			}
		}
	}
}

func TestSplit(t *testing.T) {
	for name, want := range map[string][]string{
		"kin": {"kin"}, "toldExactly": {"told", "exactly"}, "leftover": {"leftover"}, "retryFirst": {"retry", "first"},
		"HTTPServer": {"http", "server"}, "serveHTTP": {"serve", "http"}, "follow_engaged-2": {"follow", "engaged"},
	} {
		if diff := cmp.Diff(want, split(name)); diff != "" {
			t.Errorf("the words of %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRetiredNamesAreFoundWhereverGoDeclaresThem(t *testing.T) {
	const text = `package kin

import hope "fmt"

type verdict[story any] struct{ told, settled int }

const leftHere, retryFirst = 1, 2

func (judge verdict[story]) tell(bring int) (hopes int) {
	left, hoped := 1, leftHere
settles:
	for stories, fine := range []int{left, hoped} {
		hope.Println(stories, fine)
		break settles
	}
	return left
}
`
	syntax, err := parser.ParseFile(token.NewFileSet(), "a.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range declared(syntax) {
		if found, _ := n.retired(); found != "" {
			got = append(got, n.text)
		}
	}
	slices.Sort(got)
	want := []string{
		"bring", "hope", "hoped", "hopes", "judge", "kin", "leftHere", "retryFirst",
		"settled", "settles", "stories", "story", "tell", "told", "verdict",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("retired names (-want +got):\n%s", diff)
	}
}
