package hold

import (
	"fmt"
	"time"
)

// OtherError means that another manager acts in the target as this source.
type OtherError struct {
	// Holder is that of the other one.
	Holder string
	// Renewed is when this process saw the last renewal.
	Renewed time.Time
}

// Error says who holds the Lease.
func (e *OtherError) Error() string {
	return fmt.Sprintf("another manager, %q, holds the Lease", e.Holder)
}

// TurnedBackError means that the target was set back.
type TurnedBackError struct {
	// Remembered is the epoch that is to be remembered, and to be accepted. Found is that of the target, or 0.
	Remembered, Found int64
	// Missing says what became of the Lease if the target has none any more, and is empty otherwise.
	Missing string
}

// Error says how far the target was set back.
func (e *TurnedBackError) Error() string {
	if e.Missing != "" {
		return fmt.Sprintf("the target was of epoch %d: %s", e.Remembered, e.Missing)
	}
	return fmt.Sprintf("the target is of epoch %d, and was of epoch %d", e.Found, e.Remembered)
}

// SharedUserError means that the Lease is that of a source with another cluster ID, which uses the same user. This
// source acts without holding it.
type SharedUserError struct{ ClusterID string }

// Error names the other source.
func (e *SharedUserError) Error() string {
	return fmt.Sprintf("cluster %q uses the same user in the target", e.ClusterID)
}
