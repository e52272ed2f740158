package main

import (
	"fmt"
	"go/token"
)

// The kinds of mutants have the names that gremlins gives them.
const (
	arithmetic = "ARITHMETIC_BASE"
	boundary   = "CONDITIONALS_BOUNDARY"
	negation   = "CONDITIONALS_NEGATION"
	step       = "INCREMENT_DECREMENT"
	logical    = "INVERT_LOGICAL"
	negative   = "INVERT_NEGATIVES"
)

// mutant is one change of one operator.
type mutant struct {
	number int
	kind   string
	// position has the path of the file, relative to the root of the repository.
	position token.Position
	// function is the function around the operator, as in "Store.Get", and line is the text of the operator's line.
	function, line string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d:%d %s", m.position.Filename, m.position.Line, m.position.Column, m.kind)
}

// change is an operator that takes the place of another one.
type change struct {
	kind string
	to   token.Token
}

// changes returns what a binary operator is changed to.
func changes(operator token.Token) []change {
	switch operator {
	case token.ADD:
		return []change{{arithmetic, token.SUB}}
	case token.SUB:
		return []change{{arithmetic, token.ADD}}
	case token.MUL:
		return []change{{arithmetic, token.QUO}}
	case token.QUO, token.REM:
		return []change{{arithmetic, token.MUL}}
	case token.EQL:
		return []change{{negation, token.NEQ}}
	case token.NEQ:
		return []change{{negation, token.EQL}}
	case token.LSS:
		return []change{{boundary, token.LEQ}, {negation, token.GEQ}}
	case token.LEQ:
		return []change{{boundary, token.LSS}, {negation, token.GTR}}
	case token.GTR:
		return []change{{boundary, token.GEQ}, {negation, token.LEQ}}
	case token.GEQ:
		return []change{{boundary, token.GTR}, {negation, token.LSS}}
	case token.LAND:
		return []change{{logical, token.LOR}}
	case token.LOR:
		return []change{{logical, token.LAND}}
	default:
		return nil
	}
}
