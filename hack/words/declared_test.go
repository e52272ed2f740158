package words

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// name is the name of a file or folder, or one that Go code declares.
type name struct {
	text     string
	pos      token.Pos
	topLevel bool
}

// retired returns the retired word that the name contains, and the word to use instead.
func (n name) retired() (found, instead string) {
	words := " " + strings.Join(split(n.text), " ") + " "
	for _, r := range retiredNames() {
		if r.topLevel && !n.topLevel {
			continue
		}
		for _, word := range r.words {
			if strings.Contains(words, " "+word+" ") {
				return word, r.instead
			}
		}
	}
	return "", ""
}

var (
	wordStart    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronymEnd   = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
	betweenWords = regexp.MustCompile(`[^a-zA-Z]+`)
)

// split returns the words of a name in lower case: those of fitsHTTPServer are fits, http and server.
func split(name string) []string {
	name = wordStart.ReplaceAllString(name, "$1 $2")
	name = acronymEnd.ReplaceAllString(name, "$1 $2")
	return strings.Fields(strings.ToLower(betweenWords.ReplaceAllString(name, " ")))
}

// declared returns the names that a file declares: those of the package, of imports, of fields and parameters, and of
// functions, types, constants and variables at any depth.
func declared(file *ast.File) []name {
	names := []name{{file.Name.Name, file.Name.Pos(), true}}
	topLevel := topLevelNames(file)
	add := func(expressions ...ast.Expr) {
		for _, e := range expressions {
			if ident, ok := e.(*ast.Ident); ok {
				names = append(names, name{ident.Name, ident.Pos(), topLevel[ident]})
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case ast.Spec:
			for _, ident := range specified(n) {
				add(ident)
			}
		case *ast.Field:
			for _, ident := range n.Names {
				add(ident)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key, n.Value)
			}
		case *ast.LabeledStmt:
			add(n.Label)
		}
		return true
	})
	return names
}

// topLevelNames returns the names of a file's functions, methods, types, constants and variables that are not declared
// within a function.
func topLevelNames(file *ast.File) map[*ast.Ident]bool {
	names := map[*ast.Ident]bool{}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			names[d.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				for _, ident := range specified(spec) {
					names[ident] = true
				}
			}
		}
	}
	return names
}

// specified returns the names that an import, a type, or constants and variables declare.
func specified(spec ast.Spec) []*ast.Ident {
	switch s := spec.(type) {
	case *ast.ImportSpec:
		if s.Name != nil {
			return []*ast.Ident{s.Name}
		}
	case *ast.TypeSpec:
		return []*ast.Ident{s.Name}
	case *ast.ValueSpec:
		return s.Names
	}
	return nil
}
