package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mutator puts switches into the files of one package.
type mutator struct {
	*loaded
	mutants []mutant
	// notTried counts the mutants of constants.
	notTried int

	// These belong to the file that is being changed. The edits are sorted by the offsets at which they are.
	text      string
	function  string
	constants bool
	edits     map[int]*edit
}

// edit is what is inserted at an offset, in this order, and how many bytes it replaces.
type edit struct {
	closing, replacing, opening string
	replaced                    int
}

// mutate returns the text of a file with a switch for each of its mutants.
func (m *mutator) mutate(file *ast.File, text string) string {
	m.text, m.edits = text, map[int]*edit{}
	for _, declaration := range file.Decls {
		m.function, m.constants = "", false
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			m.function = functionName(d)
		case *ast.GenDecl:
			m.constants = d.Tok == token.CONST
		}
		ast.Inspect(declaration, m.visit)
	}
	return m.edited()
}

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	receiver := types.ExprString(f.Recv.List[0].Type)
	receiver, _, _ = strings.Cut(strings.TrimPrefix(receiver, "*"), "[")
	return receiver + "." + f.Name.Name
}

// visit makes the mutants of one node. Outer nodes come before inner ones.
func (m *mutator) visit(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.GenDecl:
		if n.Tok == token.CONST { // It may be within a function.
			before := m.constants
			m.constants = true
			for _, spec := range n.Specs {
				ast.Inspect(spec, m.visit)
			}
			m.constants = before
			return false
		}
	case *ast.ArrayType:
		ast.Inspect(n.Elt, m.visit)
		return false
	case *ast.BinaryExpr:
		m.binary(n)
	case *ast.UnaryExpr:
		m.unary(n)
	case *ast.IncDecStmt:
		number := m.add(step, n.TokPos)
		sign := map[token.Token]int{token.INC: 1, token.DEC: -1}[n.Tok]
		m.replace(n.TokPos, n.Tok, fmt.Sprintf(" += %s(mutantStep(%d, %d))", m.typeOf(n.X), number, sign))
	}
	return true
}

func (m *mutator) binary(n *ast.BinaryExpr) {
	made := changes(n.Op)
	basic, _ := m.info.TypeOf(n.X).Underlying().(*types.Basic)
	joinsTexts := n.Op == token.ADD && basic != nil && basic.Info()&types.IsString != 0
	if joinsTexts || len(made) == 0 {
		return
	}
	if m.constants {
		m.notTried += len(made)
		return
	}
	number := 0
	for i, c := range made {
		if added := m.add(c.kind, n.OpPos); i == 0 {
			number = added
		}
	}
	is := fmt.Sprintf("mutantIs(%d)", number)
	switch n.Op {
	case token.EQL, token.NEQ:
		m.wrap(n, "("+is+" != (", "))")
	case token.LAND, token.LOR: // By De Morgan's laws, "and" and "or" change places if both sides and the result do.
		m.wrap(n, "(("+is+" != (", ")) != "+is+")")
		m.replace(n.OpPos, n.Op, ") "+n.Op.String()+" "+is+" != (")
	default:
		m.wrap(n, fmt.Sprintf("%s%s(%d, ", helper(n.Op), m.instance(n), number), ")")
		m.replace(n.OpPos, n.Op, ",")
	}
}

func (m *mutator) unary(n *ast.UnaryExpr) {
	if n.Op != token.SUB {
		return
	}
	if m.constants {
		m.notTried++
		return
	}
	number := m.add(negative, n.OpPos)
	m.replace(n.OpPos, n.Op, fmt.Sprintf("mutantMinus%s(%d, ", m.instance(n), number))
	m.insert(n.End()).closing = ")" + m.insert(n.End()).closing
}

// instance returns the type argument of a helper that stands for a constant: such a helper cannot infer it.
func (m *mutator) instance(n ast.Expr) string {
	if m.info.Types[n].Value == nil || !isNumber(m.info.TypeOf(n)) {
		return ""
	}
	return "[" + m.typeOf(n) + "]"
}

func isNumber(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsNumeric != 0
}

// typeOf returns the name of an expression's type.
func (m *mutator) typeOf(n ast.Expr) string {
	return types.TypeString(types.Default(m.info.TypeOf(n)), func(p *types.Package) string {
		if p.Path() == m.types.Path() {
			return ""
		}
		return p.Name()
	})
}

// add adds a mutant and returns its number.
func (m *mutator) add(kind string, at token.Pos) int {
	position := m.set.Position(at)
	lines := strings.Split(m.text, "\n")
	m.mutants = append(m.mutants, mutant{
		number: len(m.mutants) + 1, kind: kind, position: position, function: m.function,
		line: strings.TrimSpace(lines[position.Line-1]),
	})
	return len(m.mutants)
}

func (m *mutator) insert(at token.Pos) *edit {
	offset := m.set.Position(at).Offset
	if m.edits[offset] == nil {
		m.edits[offset] = &edit{}
	}
	return m.edits[offset]
}

// wrap puts texts around an expression, within those of the expressions around it.
func (m *mutator) wrap(n ast.Expr, before, after string) {
	m.insert(n.Pos()).opening += before
	end := m.insert(n.End())
	end.closing = after + end.closing
}

func (m *mutator) replace(at token.Pos, operator token.Token, text string) {
	e := m.insert(at)
	e.replacing, e.replaced = text, len(operator.String())
}

func (m *mutator) edited() string {
	offsets := make([]int, 0, len(m.edits))
	for offset := range m.edits {
		offsets = append(offsets, offset)
	}
	slices.Sort(offsets)
	var text strings.Builder
	done := 0
	for _, offset := range offsets {
		e := m.edits[offset]
		text.WriteString(m.text[done:offset] + e.closing + e.opening + e.replacing)
		done = offset + e.replaced
	}
	return text.String() + m.text[done:]
}
