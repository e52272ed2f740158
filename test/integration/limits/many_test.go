//go:build long

package limits

import "time"

// many is the number of namespaces, and patience how long their pods may take.
const (
	many     = 1000
	patience = 15 * time.Minute
)
