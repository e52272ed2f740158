package watch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestAWatchThatFailsIsTriedLaterEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []time.Time
		ctx, end := context.WithCancel(t.Context())
		Again(ctx, clock.RealClock{}, time.Second, 30*time.Second, func(context.Context) {
			if n := len(ends); n > 0 {
				least := min(time.Second<<(n-1), 30*time.Second)
				if n > 12 {
					least = time.Second // The one before worked.
				}
				if waited := time.Since(ends[n-1]); waited < least || waited > 2*least {
					t.Errorf("before call %d it waited %s, want %s to %s", n+1, waited, least, 2*least)
				}
			}
			switch len(ends) {
			case 12:
				time.Sleep(worked) //nolint:forbidigo // The bubble's time.
			case 13:
				end()
			}
			ends = append(ends, time.Now())
		})
		if len(ends) != 14 {
			t.Errorf("%d calls", len(ends))
		}
	})
}
