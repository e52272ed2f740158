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

// TrampolineCommand is the subcommand that passes its arguments to Trampoline.
const TrampolineCommand = "exec"

// trampolineArgs is the number of arguments before those of the command.
const trampolineArgs = 5

// Trampoline enters a place, records this process, and replaces this program by a command. It returns only with an
// error.
//
// Its first three arguments are the place: control group, mount namespace and network namespace, each of which may be
// empty. The next two are the file of the record, which may be empty, too, and the fingerprint. The others are the
// command.
func Trampoline(args []string) error {
	if len(args) <= trampolineArgs {
		return errors.New("exec needs a control group, a mount namespace, a network namespace, " +
			"a record, a fingerprint and a command")
	}
	// Only the thread that becomes the command has to be in the namespaces.
	runtime.LockOSThread()
	if err := recordSelf(args[3], args[4]); err != nil {
		return err
	}
	if err := join(args[0]); err != nil {
		return err
	}
	if err := namespace.Enter(args[1], args[2]); err != nil {
		return err
	}
	command := args[trampolineArgs:]
	program, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("finding %q: %w", command[0], err)
	}
	return fmt.Errorf("running %q: %w", program, syscall.Exec(program, command, os.Environ()))
}

// recordSelf records this process. The program that started it does not, because a kill could come first.
func recordSelf(path, fingerprint string) error {
	if path == "" {
		return nil
	}
	started, err := startOf(os.Getpid())
	if err != nil {
		return err
	}
	return Record{PID: os.Getpid(), Started: started, Command: fingerprint}.write(path)
}

func join(path string) error {
	if path == "" {
		return nil
	}
	hierarchies, err := cgroup.Mounted()
	if err != nil {
		return err
	}
	return hierarchies.At(path).Join()
}
