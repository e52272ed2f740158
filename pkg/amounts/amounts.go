package amounts

import (
	"bytes"
	"fmt"
)

const (
	maxLength   = 64 // of a number before its suffix, and of a suffix before its digits
	maxExponent = 2  // digits
	maxZeros    = 10 // before the exponent's digits
)

// Check returns an error, for users to read, if JSON has an amount of a resource that is costly or dangerous to decode.
// It does not validate JSON.
func Check(raw []byte) error {
	var c Cutter
	if c.Cut(bytes.Clone(raw)) {
		return fmt.Errorf("the amount of %q has more than %d characters, or an exponent of more than %d digits",
			c.about, maxLength, maxExponent)
	}
	return nil
}

// IsSound says whether an amount is harmless to decode and to compare.
func IsSound(amount string) bool {
	var s shape
	for i := range len(amount) {
		if s.next(amount[i]); s.over {
			return false
		}
	}
	return true
}

// shape is the part of an amount that was read.
type shape struct {
	length, zeros, exponent int
	suffix                  bool
	over                    bool
}

// next returns the next character of an amount, or a space in place of one that exceeds the bounds. Decoders ignore
// spaces at the end of an amount. What remains is well-formed if the amount is.
func (s *shape) next(c byte) byte {
	if !s.over {
		s.over = !s.passes(c)
	}
	if s.over {
		return ' '
	}
	return c
}

func (s *shape) passes(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		if !s.suffix {
			s.suffix, s.length = true, 0
			return true
		}
	case c == '0' && s.suffix && s.exponent == 0:
		s.zeros++
		return s.zeros <= maxZeros
	case c >= '0' && c <= '9' && s.suffix:
		s.exponent++
		return s.exponent <= maxExponent
	case c == '.' && s.length == maxLength-1: // A number in JSON does not end with it.
		return false
	case c >= '0' && c <= '9', c == '+', c == '-', c == '.', c == ' ':
	default: // Nothing else belongs into an amount, escaped characters neither.
		return false
	}
	s.length++
	return s.length <= maxLength
}
