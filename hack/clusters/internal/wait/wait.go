package wait

import (
	"context"
	"fmt"
	"time"
)

// Interval is the time after which Until asks again.
const Interval = 50 * time.Millisecond

// Until calls done, at once and then at every Interval, until done returns true or an error, or ctx ends. If ctx ends,
// the error contains what, a sentence that describes the condition.
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
