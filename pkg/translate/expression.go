package translate

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	maxExpression   = 8 << 10 // bytes
	maxInstructions = 2000
)

// CompileExpression compiles a regular expression (RE2) that somebody else wrote. The time that it takes to match a
// text is at most about that of maxInstructions for each character. CompileExpression returns an error, for the
// author, if the expression is not valid or larger.
func CompileExpression(text string) (*regexp.Regexp, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("a regular expression may have at most %d bytes", maxExpression)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxInstructions {
		return nil, fmt.Errorf("the regular expression is too large: without repetitions ({n}), it would have some "+
			"%d characters, and it may have %d", len(program.Inst), maxInstructions)
	}
	return regexp.Compile(text)
}
