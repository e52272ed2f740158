//go:build e2e && long

package e2e

import "time"

// The long form of the tests that have a short one, in form_test.go.
const (
	trips   = 100
	tail    = 99
	silence = 2 * time.Minute
)
