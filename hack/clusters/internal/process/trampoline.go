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

// trampolineArgs is how many arguments come before those of the command.
const trampolineArgs = 5

// Trampoline enters the place given by its first three arguments (control group, mount and network namespace, each may be
// empty), writes the record of this process with the fingerprint into the file given by the next two (none if empty), and
// replaces this program by the command in the others. It returns only with an error.
func Trampoline(args []string) error {
	if len(args) <= trampolineArgs {
		return errors.New("exec wants a control group, a mount namespace, a network namespace, a record, a fingerprint and a command")
	}
	// Only the thread that becomes the command need be in the namespaces.
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

// recordSelf leaves it to no one else to record this process, who could be killed before they do.
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
