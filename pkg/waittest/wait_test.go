package waittest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// brief is a test that has no time, and keeps why it failed.
type brief struct {
	testing.TB
	failed string
}

func (b *brief) Helper() {}

func (b *brief) Context() context.Context {
	ctx, cancel := context.WithCancel(b.TB.Context())
	cancel()
	return ctx
}

func (b *brief) Fatalf(format string, args ...any) {
	b.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAWaitInVainEndsTheTestAndSaysForWhat(t *testing.T) {
	for name, test := range map[string]struct {
		wait func(testing.TB)
		says string
	}{
		"for a value":     {func(t testing.TB) { t.Helper(); Receive(t, "the end", make(chan int)) }, "for the end"},
		"for a condition": {func(t testing.TB) { t.Helper(); Eventually(t, "it ends", never) }, "until it ends"},
		"for a check":     {func(t testing.TB) { t.Helper(); Succeeds(t, fails) }, "it goes on"},
	} {
		t.Run(name, func(t *testing.T) {
			b, ended := &brief{TB: t}, make(chan struct{})
			go func() {
				defer close(ended)
				test.wait(b)
			}()
			Receive(t, "the end of the test", ended)
			if !strings.Contains(b.failed, test.says) {
				t.Errorf("it failed with %q", b.failed)
			}
		})
	}
}

func never() bool  { return false }
func fails() error { return errors.New("it goes on") }

func TestAWaitEndsWithWhatItIsFor(t *testing.T) {
	sent := make(chan int, 1)
	sent <- 7
	if got := Receive(t, "a number", sent); got != 7 {
		t.Errorf("got %d", got)
	}
	calls := 0
	third := func() bool { calls++; return calls == 3 }
	Eventually(t, "it is the third call", third)
	calls = 0
	Succeeds(t, func() error {
		if !third() {
			return errors.New("not the third call")
		}
		return nil
	})
}
