package pause

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// For waits for d, or until ctx ends if that is earlier. The caller looks at ctx to tell the two apart.
func For(ctx context.Context, c clock.Clock, d time.Duration) {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
