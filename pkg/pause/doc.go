// Package pause holds the wait between two attempts, which ends early with a context, on a clock that tests can set.
package pause
