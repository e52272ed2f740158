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
	if n := sizeOf(parsed); n > maxInstructions {
		return nil, tooLarge(n)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxInstructions {
		return nil, tooLarge(len(program.Inst))
	}
	return regexp.Compile(text)
}

func tooLarge(size int) error {
	return fmt.Errorf("the regular expression is too large: without repetitions ({n}), it would have some "+
		"%d characters, and it may have %d", size, maxInstructions)
}

// sizeOf returns how many characters an expression has without repetitions ({n}), at least, or more than
// maxInstructions. To compile the expression takes memory for each of them.
func sizeOf(e *syntax.Regexp) int {
	size := max(1, len(e.Rune))
	if e.Op == syntax.OpCharClass {
		size = 1
	}
	for _, sub := range e.Sub {
		size = min(size+sizeOf(sub), maxInstructions+1)
	}
	if e.Op == syntax.OpRepeat {
		size *= max(1, e.Min, e.Max) // At most a thousand.
	}
	return min(size, maxInstructions+1)
}
