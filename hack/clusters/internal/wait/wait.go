package wait

import (
	"context"
	"fmt"
	"time"
)

// Interval is how long Until pauses between two questions.
const Interval = 50 * time.Millisecond

// Until calls done, at once and then at every Interval, until it returns true or an error, or ctx ends. The error of an
// ended context names what was waited for.
func Until(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		ok, err := done(ctx)
		if err != nil {
			return err
		}
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
}
