package pause

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestAPauseEndsWithItsTimeOrItsContext(t *testing.T) {
	for name, test := range map[string]struct{ life, d, want time.Duration }{
		"its time":                   {life: time.Hour, d: time.Minute, want: time.Minute},
		"its context":                {life: time.Second, d: time.Minute, want: time.Second},
		"a context that has ended":   {life: 0, d: time.Minute, want: 0},
		"a time that has passed":     {life: time.Hour, d: 0, want: 0},
		"a time that passed earlier": {life: time.Hour, d: -time.Second, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.life)
				defer cancel()
				began := time.Now()
				For(ctx, clock.RealClock{}, test.d)
				if took := time.Since(began); took != test.want {
					t.Errorf("the pause took %s, want %s", took, test.want)
				}
			})
		})
	}
}
