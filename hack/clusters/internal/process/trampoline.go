package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cgroup"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/namespace"
)

// TrampolineCommand is the subcommand that calls Trampoline with the arguments after it.
const TrampolineCommand = "exec"

// Trampoline enters the place given by its first three arguments (control group, mount and network namespace, each may be
// empty) and replaces this program by the command in the others. It returns only with an error.
func Trampoline(args []string) error {
	if len(args) < 4 {
		return errors.New("exec wants a control group, a mount namespace, a network namespace and a command")
	}
	runtime.LockOSThread()
	if args[0] != "" {
		hierarchies, err := cgroup.Mounted()
		if err != nil {
			return err
		}
		if err := hierarchies.At(args[0]).Join(); err != nil {
			return err
		}
	}
	if err := namespace.Enter(args[1], args[2]); err != nil {
		return err
	}
	program, err := exec.LookPath(args[3])
	if err != nil {
		return fmt.Errorf("finding %q: %w", args[3], err)
	}
	return fmt.Errorf("running %q: %w", program, syscall.Exec(program, args[3:], os.Environ()))
}
