// Package waittest is for tests that wait for other goroutines. Each wait ends after a minute, and says what it waited
// for. A bare receive, or a loop until t.Context ends, would wait for the time-out of the whole run if the product is
// broken: t.Context ends only after the test function.
package waittest
