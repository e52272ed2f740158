package timeouts

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestARequestEndsWithItsDeadlineOrItsCaller(t *testing.T) {
	for name, test := range map[string]struct{ life, want time.Duration }{
		"its deadline": {life: time.Hour, want: Request},
		"its caller":   {life: time.Second, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.life)
				defer cancel()
				began := time.Now()
				err := Within(ctx, func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				})
				if took := time.Since(began); took != test.want || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the request took %s, error %v", took, err)
				}
			})
		})
	}
}
