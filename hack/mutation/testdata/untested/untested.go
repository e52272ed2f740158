// Package untested has no tests.
package untested

// Less compares.
func Less(a, b int) bool { return a < b }
