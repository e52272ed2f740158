package simulation

import (
	"io"
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// TestMain keeps quiet about the errors of reflectors: runs are full of them. The handler of errors would also let a
// reflector sleep until the time of an error in another bubble, which has a time of its own.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}
