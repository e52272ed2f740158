package process

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/wait"
)

// Place is the place in which a process runs. An empty field stands for the place of this program.
type Place struct {
	// Cgroup is the path of a control group, relative to the roots of the hierarchies.
	Cgroup string
	// Mounts and Net are the pins of the mount namespace and of the network namespace.
	Mounts, Net string
}

// Command is a component to start.
type Command struct {
	Place
	Args []string
	// Config is the configuration of the component. It needs a restart if Config changes.
	Config string
	// Log is the file to which the component appends its output, and Record the file of the process's record.
	Log, Record string
}

// Fingerprint identifies the command line and configuration.
func (c Command) Fingerprint() string {
	sum := sha256.Sum256([]byte(strings.Join(c.Args, "\x00") + "\x00" + c.Config))
	return hex.EncodeToString(sum[:8])
}

// Start starts a component in a session of its own, and returns when the record exists. Start does not wait until the
// component works. The component outlives ctx.
func Start(ctx context.Context, c Command) error {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening a log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd, err := c.trampoline(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %q: %w", c.Args[0], err)
	}
	// This program reaps a component that ends early. The machine's first process reaps the others.
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return wait.Until(ctx, fmt.Sprintf("%q is recorded", c.Args[0]), func(context.Context) (bool, error) {
		record, err := Read(c.Record)
		if err != nil || record.PID == cmd.Process.Pid {
			return true, err
		}
		select {
		case err := <-ended:
			return false, fmt.Errorf("starting %q: it ended at once (%w); see %s", c.Args[0], err, c.Log)
		default:
			return false, nil
		}
	})
}

// Run runs a program in a place, to its end, and returns its output. An error contains the output, too.
func Run(ctx context.Context, place Place, input string, args ...string) (string, error) {
	cmd, err := Command{Place: place, Args: args}.trampoline(ctx)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("running %q: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

func (c Command) trampoline(ctx context.Context) (*exec.Cmd, error) {
	args := c.Args
	if c.Place != (Place{}) || c.Record != "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("finding this program: %w", err)
		}
		args = append([]string{self, TrampolineCommand, c.Cgroup, c.Mounts, c.Net, c.Record, c.Fingerprint()}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8",
	}
	return cmd, nil
}
