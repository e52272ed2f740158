package scheduling

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestWakeUpsByOneTargetKeepTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int32
		p := &paced{clock: clock.RealClock{}, do: func() { done.Add(1) }}
		for step, test := range []struct {
			asks  int
			after time.Duration
			want  int32 // wake-ups so far
		}{
			{asks: 100, want: 1},                        // the first one at once
			{after: wakeInterval - 1, want: 1},          // no more within the interval
			{after: 1, want: 2},                         // and then once for all
			{asks: 1, want: 2},                          // no more within the next interval
			{after: wakeInterval, want: 3},              // and then once
			{after: 2 * wakeInterval, want: 3},          // nothing twice
			{asks: 1, want: 4},                          // at once after a pause
			{asks: 5, after: 3 * wakeInterval, want: 5}, // once for all
			{after: 3 * wakeInterval, want: 5},          // nothing twice
		} {
			for range test.asks {
				p.ask()
			}
			time.Sleep(test.after) //nolint:forbidigo // The bubble's time.
			synctest.Wait()
			if got := done.Load(); got != test.want {
				t.Errorf("step %d: %d wake-ups, want %d", step+1, got, test.want)
			}
		}
	})
}
