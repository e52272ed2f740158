package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/prose"
)

// source is a parsed Go file.
type source struct {
	prose.File
	set    *token.FileSet
	syntax *ast.File
}

// parse parses the Go files.
func parse(files []prose.File) ([]source, error) {
	var sources []source
	set := token.NewFileSet()
	for _, f := range files {
		if !f.IsGo() {
			continue
		}
		syntax, err := parser.ParseFile(set, f.Path, f.Text(), parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parsing: %w", err)
		}
		sources = append(sources, source{File: f, set: set, syntax: syntax})
	}
	return sources, nil
}

// folder returns the folder of the file: the identity of its package.
func (s source) folder() string { return path.Dir(s.Path) }

// isTest reports whether the file is there for tests only: a _test.go file, or a file of the packages in test.
func (s source) isTest() bool {
	return strings.HasSuffix(s.Path, "_test.go") || strings.HasPrefix(s.Path, "test/")
}

func (s source) line(pos token.Pos) int { return s.set.Position(pos).Line }
