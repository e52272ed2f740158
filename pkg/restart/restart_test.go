package restart

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) {
	if os.Getenv("RESTART_TEST") == "" {
		os.Exit(m.Run())
	}
	// The process that the test below starts. It starts itself again twice.
	fmt.Println(os.Getpid(), Restarts(), Pause(), strings.Join(os.Args[1:], " "))
	if Pause() < 2*time.Second {
		fmt.Println(Exec(0))
	}
	os.Exit(7)
}

func TestTheProcessStartsAgainAsItself(t *testing.T) {
	command := exec.CommandContext(t.Context(), os.Args[0], "--config", "x")
	command.Env = append(os.Environ(), "RESTART_TEST=1")
	out, _ := command.Output()
	pid := command.ProcessState.Pid()
	want := fmt.Sprintf("%[1]d 0 0s --config x\n%[1]d 1 1s --config x\n%[1]d 2 2s --config x\n", pid)
	if diff := cmp.Diff(want, string(out)); diff != "" || command.ProcessState.ExitCode() != 7 {
		t.Errorf("exit code %d (-want +got):\n%s", command.ProcessState.ExitCode(), diff)
	}
}

func TestPausesGrowAndEnd(t *testing.T) {
	env, pauses := []string{"HOME=/"}, []time.Duration{}
	for range 6 {
		env = environment(env, time.Second)
		t.Setenv(variable, strings.TrimPrefix(env[1], variable+"="))
		pauses = append(pauses, Pause())
	}
	want := []time.Duration{
		time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second,
	}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"HOME=/", variable + "=1", total + "=7"}, environment(env, time.Hour)); diff != "" {
		t.Errorf("after an hour without a failure (-want +got):\n%s", diff)
	}
}
