package env

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// T is the part of *testing.T that this package uses. The set-up of a suite has a T, too, whose context ends and whose
// clean-up runs after all tests.
type T interface {
	Helper()
	Context() context.Context
	Cleanup(do func())
	Errorf(format string, arguments ...any)
	Fatalf(format string, arguments ...any)
}

// Main is the body of every TestMain: it sets the suite up, runs the tests, cleans up and exits. With -v it shows the
// logs of the parts under test.
func Main(m *testing.M, setUp func(t T)) {
	flag.Parse()
	logger := logr.Discard()
	if testing.Verbose() {
		logger = zap.New(zap.UseDevMode(true), zap.WriteTo(os.Stderr))
	}
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	os.Exit(run(m.Run, setUp))
}

func run(tests func() int, setUp func(t T)) (code int) {
	s := &suite{}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // This is the root of all others.
	s.ctx = ctx
	s.do(func() { setUp(s) })
	if !s.failed {
		code = tests()
	}
	cancel()
	for len(s.cleanups) > 0 {
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		s.do(last)
	}
	if s.failed {
		return 1
	}
	return code
}

// suite is the T of a set-up.
type suite struct {
	ctx      context.Context
	cleanups []func()
	failed   bool
}

// do waits until a function has returned or Fatalf has ended it.
func (s *suite) do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (*suite) Helper() {}

func (s *suite) Context() context.Context { return s.ctx }

func (s *suite) Cleanup(do func()) { s.cleanups = append(s.cleanups, do) }

func (s *suite) Errorf(format string, arguments ...any) {
	s.failed = true
	fmt.Fprintf(os.Stderr, "set-up: "+format+"\n", arguments...)
}

func (s *suite) Fatalf(format string, arguments ...any) {
	s.Errorf(format, arguments...)
	runtime.Goexit()
}

// Must ends the test if there is an error.
func Must(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}
