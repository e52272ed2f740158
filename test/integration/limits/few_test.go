//go:build !long

package limits

import "time"

// many is the number of namespaces, and patience how long their pods may take.
const (
	many     = 100
	patience = 2 * time.Minute
)
