package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// quiet keeps the programs' logs back. The handlers of errors would also let reflectors sleep by the real clock.
func quiet() {
	utilruntime.ErrorHandlers = nil
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	metrics.Register()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2) // The first call starts a goroutine, which must be outside.
}

// inBubble calls f with a clock of its own, which goes on as soon as nobody has anything to do. ctx ends when f
// returns.
func inBubble(t *testing.T, f func(ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		defer synctest.Wait()
		defer cancel()
		f(ctx)
	})
}

// asTest runs f as a test, in a program that is none, and ends the program: there are no bubbles outside of tests.
func asTest(name string, f func(t *testing.T)) {
	os.Args = os.Args[:1] // The others are not flags of package testing.
	match := func(string, string) (bool, error) { return true, nil }
	testing.Main(match, []testing.InternalTest{{Name: name, F: f}}, nil, nil)
}
