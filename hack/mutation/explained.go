package main

import (
	"fmt"
	"os"
	"strings"
)

// explanation names mutants that may live.
type explanation struct {
	text string
	// file and function are those of the mutants. An empty kind stands for all mutants of the function.
	file, function, kind, line string
	used                       bool
}

// readExplanations reads explained.txt. Its reasons begin in the first column. Below each are its mutants, indented:
// the file, the function, and also the kind and the line's text unless all mutants of the function are meant.
func readExplanations(path string) ([]*explanation, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the explained mutants: %w", err)
	}
	var all []*explanation
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "\t") {
			continue
		}
		words := append(strings.SplitN(strings.TrimSpace(line), " ", 4), "", "", "")
		all = append(all, &explanation{
			text: strings.TrimSpace(line), file: words[0], function: words[1], kind: words[2], line: words[3],
		})
	}
	return all, nil
}

// explain reports whether an explanation is for the mutant, and marks that explanation as used.
func explain(all []*explanation, m mutant) bool {
	for _, e := range all {
		if e.file == m.position.Filename && e.function == m.function &&
			(e.kind == "" || e.kind == m.kind && e.line == m.line) {
			e.used = true
			return true
		}
	}
	return false
}
