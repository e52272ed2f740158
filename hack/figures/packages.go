package main

import (
	"fmt"
	"go/doc"
	"io"
	"maps"
	"slices"
)

// printPackages prints each package that is not for tests alone, with the first sentence of its comment.
func printPackages(out io.Writer, sources []source) {
	jobs := map[string]string{}
	for _, s := range sources {
		job := jobs[s.folder()]
		if s.syntax.Doc != nil {
			job = new(doc.Package).Synopsis(s.syntax.Doc.Text())
		}
		jobs[s.folder()] = job
	}
	for _, folder := range slices.Sorted(maps.Keys(jobs)) {
		fmt.Fprintf(out, "%s: %s\n", folder, jobs[folder])
	}
}
