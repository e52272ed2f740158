package waittest

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// patience is far longer than anything takes on an idle machine.
	patience = time.Minute
	interval = time.Millisecond
)

// Receive returns what another goroutine sends. It ends the test if nothing comes.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var sent T
	select {
	case sent = <-from:
	case <-ctx.Done():
		t.Fatalf("waiting for %s: nothing came", what)
	}
	return sent
}

// Eventually waits until another goroutine has done something. It ends the test if that does not happen.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), interval, patience, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// Succeeds waits until a check returns nil. It ends the test with the last error of the check otherwise.
func Succeeds(t testing.TB, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), interval, patience, true,
		func(context.Context) (bool, error) { last = check(); return last == nil, nil })
	if err != nil {
		t.Fatalf("still not so: %v", last)
	}
}
