// Package tiny has one operator of each kind for the tests of mutation.
package tiny

import "time"

const second = 5 * time.Second

// Wait is a constant outside of a constant declaration.
var Wait = 2*time.Minute - second

// Abs returns the absolute value of a number.
func Abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// Both reports whether the text is neither empty nor missing. The order of its operands matters.
func Both(text *string, wanted bool) bool {
	return wanted && text != nil && (*text != "" || len(*text)%2 == 1)
}

// Count counts up to a limit.
func Count(limit int) (count int32) {
	for i := 0; i < limit; i++ {
		count++
	}
	return count
}

// Name joins texts.
func Name(a, b string) string { return a + "-" + b }

// Grade has cases, a constant that needs a type, and an operator that no test reaches.
func Grade(points int64) int64 {
	switch {
	case points >= 50:
		return -1
	case points <= 10:
		return points / 2 * 3
	}
	return points + 1
}
