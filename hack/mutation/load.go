package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// loaded is a package with its types.
type loaded struct {
	folder string
	set    *token.FileSet
	files  map[string]*ast.File
	texts  map[string]string
	types  *types.Package
	info   *types.Info
}

// listed is what `go list` says of a package.
type listed struct {
	ImportPath, Export string
	GoFiles            []string
	DepOnly            bool
}

// load reads the package in a folder. The packages that it imports come from the build cache.
func load(ctx context.Context, folder string) (*loaded, error) {
	packages, err := list(ctx, folder)
	if err != nil {
		return nil, err
	}
	l := &loaded{
		folder: folder, set: token.NewFileSet(), files: map[string]*ast.File{}, texts: map[string]string{},
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{}},
	}
	exports := map[string]string{}
	var files []*ast.File
	var path string
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
		if p.DepOnly {
			continue
		}
		path = p.ImportPath
		for _, name := range p.GoFiles {
			file, err := l.parse(filepath.Join(folder, name))
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	lookUp := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(l.set, "gc", lookUp)}
	if l.types, err = config.Check(path, l.set, files, l.info); err != nil {
		return nil, fmt.Errorf("checking the types of %s: %w", folder, err)
	}
	return l, nil
}

func (l *loaded) parse(path string) (*ast.File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	file, err := parser.ParseFile(l.set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}
	l.files[path], l.texts[path] = file, string(text)
	return file, nil
}

// list lists the package in a folder and those that it depends on, compiled.
func list(ctx context.Context, folder string) ([]listed, error) {
	out, err := goCommand(ctx, "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles,DepOnly",
		"./"+folder).Output()
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", folder, withOutput(err))
	}
	var packages []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what go list says: %w", err)
		}
		packages = append(packages, p)
	}
}

// goCommand is a go command with the settings of `make build`, so that dependencies are compiled already.
func goCommand(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath")
	return command
}

// withOutput adds to an error what the program wrote.
func withOutput(err error) error {
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return err
}
