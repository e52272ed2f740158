package watch

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/pause"
)

// worked is how long a watch lasts at least that counts as a success.
const worked = time.Minute

// Again calls watch until ctx ends, however often it returns. It waits before each further call: first at least, then
// twice as long each time, up to last, and up to twice as much by chance. After a call that lasted a minute, it begins
// with the first wait again.
func Again(ctx context.Context, c clock.Clock, first, last time.Duration, watch func(context.Context)) {
	backoff := waits(first, last)
	for ctx.Err() == nil {
		began := c.Now()
		watch(ctx)
		if c.Since(began) >= worked {
			backoff = waits(first, last)
		}
		pause.For(ctx, c, backoff.Step())
	}
}

func waits(first, last time.Duration) *wait.Backoff {
	return &wait.Backoff{Duration: first, Cap: last, Steps: 20, Factor: 2, Jitter: 1}
}
