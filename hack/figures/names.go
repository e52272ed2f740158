package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/prose"
)

// commonIn is the number of packages in which a name may be declared without being counted as shared.
const commonIn = 2

// prescribed reports whether somebody else chose a name. Two packages that both declare such a name did not choose the
// same word for two ideas.
func prescribed(name string) bool {
	switch name {
	case "_", "main", "init", "String", "Error", "Unwrap", "Write", "Close", "RoundTrip", "ServeHTTP", "TestMain": // Go
		return true
	case "New", "Run", "Register", "Options", "Reconciler": // customs of Go, of controller-runtime and of this project
		return true
	case "Reconcile", "Start", "NeedLeaderElection", // controller-runtime
		"Create", "Update", "Patch", "Delete", "Get", "List", "Status":
		return true
	case "Name", "Filter", "Score", "Reserve", "Unreserve", "Bind": // kube-scheduler
		return true
	case "Engaged", "Lost", "PolicyChanged": // this project's engage.Observer
		return true
	}
	return false
}

// sharedName is a name that several packages declare.
type sharedName struct {
	name     string
	packages []string
}

// sharedNames returns the names that more than commonIn packages declare, as methods or at package level, those in most
// packages first. Prescribed names are left out.
func sharedNames(sources []source) []sharedName {
	packages := map[string]map[string]bool{}
	for _, s := range sources {
		for _, name := range declared(s.syntax) {
			if prescribed(name) {
				continue
			}
			if packages[name] == nil {
				packages[name] = map[string]bool{}
			}
			packages[name][s.folder()] = true
		}
	}
	var shared []sharedName
	for name, folders := range packages {
		if len(folders) > commonIn {
			shared = append(shared, sharedName{name, slices.Sorted(maps.Keys(folders))})
		}
	}
	slices.SortFunc(shared, func(a, b sharedName) int {
		return cmp.Or(cmp.Compare(len(b.packages), len(a.packages)), cmp.Compare(a.name, b.name))
	})
	return shared
}

// declared returns the names that a file declares at package level, and those of its methods.
func declared(file *ast.File) []string {
	var names []string
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

func printNames(out io.Writer, names []sharedName, list bool) {
	fmt.Fprintf(out, "  names in more than %d packages: %d\n", commonIn, len(names))
	if list {
		for _, name := range names {
			fmt.Fprintf(out, "    %s (%d): %s\n", name.name, len(name.packages), strings.Join(name.packages, ", "))
		}
		return
	}
	line := "   "
	for _, name := range names {
		entry := fmt.Sprintf(" %s (%d)", name.name, len(name.packages))
		if len(line)+len(entry) > prose.MaxColumns {
			fmt.Fprintln(out, line)
			line = "   "
		}
		line += entry
	}
	fmt.Fprintln(out, line)
}
