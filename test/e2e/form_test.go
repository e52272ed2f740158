//go:build e2e && !long

package e2e

import "time"

// The short form. The long one is in form_long_test.go.
const (
	// trips is how many pods start in c2 before the attacks of a hostile target, and at least how many during them.
	trips = 30
	// tail is a percentile that leaves out three of the trips. Kubelets and other programs make a pod late at times.
	tail = 90
	// silence is for how long nothing may happen to the pods of a target whose manager is silent.
	silence = 30 * time.Second
)
