//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	registryDir    = "/run/multicluster-scheduler/clusters"
	commandTimeout = 3 * time.Minute
	interval       = 200 * time.Millisecond
)

// checkout is a folder that the program takes for a checkout of its own. It shares sources and built programs with the
// real one.
type checkout struct {
	t    *testing.T
	dir  string
	slot string
}

func newCheckout(t *testing.T) *checkout {
	t.Helper()
	repository, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".local"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(repository, ".local", "bin", "clusters")); err != nil {
		t.Fatalf("the program is not built: run `make setup` first (%v)", err)
	}
	for _, shared := range []string{"hack", "test", "go.mod", "go.sum", ".local/bin"} {
		if err := os.Symlink(filepath.Join(repository, shared), filepath.Join(dir, shared)); err != nil {
			t.Fatal(err)
		}
	}
	c := &checkout{t: t, dir: dir}
	t.Cleanup(func() {
		if _, err := os.Stat(dir); err == nil {
			c.clusters("down")
		}
	})
	return c
}

// in returns the checkout for the subtest t.
func (c *checkout) in(t *testing.T) *checkout {
	t.Helper()
	return &checkout{t: t, dir: c.dir, slot: c.slot}
}

// clusters runs the program, fails the test if it fails, and returns what it printed.
func (c *checkout) clusters(args ...string) string {
	c.t.Helper()
	out, err := c.run("clusters", args...)
	if err != nil {
		c.t.Fatalf("clusters %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// kubectl runs kubectl against a cluster, fails the test if it fails, and returns what it printed.
func (c *checkout) kubectl(cluster string, args ...string) string {
	c.t.Helper()
	out, err := c.tryKubectl(cluster, args...)
	if err != nil {
		c.t.Fatalf("kubectl --context %s %s: %v\n%s", cluster, strings.Join(args, " "), err, out)
	}
	return out
}

func (c *checkout) tryKubectl(cluster string, args ...string) (string, error) {
	return c.run("kubectl", append([]string{
		"--kubeconfig", filepath.Join(c.dir, ".local", "kubeconfig"), "--context", cluster, "--request-timeout=5s",
	}, args...)...)
}

func (c *checkout) run(program string, args ...string) (string, error) {
	// The clean-up runs after the end of the test's context.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.dir, ".local", "bin", program), args...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// eventually waits until done returns no error.
func (c *checkout) eventually(done func() error) {
	c.t.Helper()
	deadline, ticker := time.After(time.Minute), time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := done()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			c.t.Fatal(err)
		case <-ticker.C:
		}
	}
}

// findSlot finds the slot of the machine that the checkout holds.
func (c *checkout) findSlot() {
	c.t.Helper()
	entries, err := filepath.Glob(filepath.Join(registryDir, "*", "entry.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, file := range entries {
		var entry struct {
			Checkout string `json:"checkout"`
		}
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if err := json.Unmarshal(content, &entry); err == nil && entry.Checkout == c.dir {
			c.slot = filepath.Base(filepath.Dir(file))
			return
		}
	}
	c.t.Fatalf("there is no record of %s", c.dir)
}

// kill kills a component, as a crash does.
func (c *checkout) kill(cluster, component string) {
	c.t.Helper()
	var record struct {
		PID int `json:"pid"`
	}
	content, err := os.ReadFile(filepath.Join(registryDir, c.slot, cluster, component+".json"))
	if err := errors.Join(err, json.Unmarshal(content, &record)); err != nil {
		c.t.Fatal(err)
	}
	if err := syscall.Kill(record.PID, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
}

// leftovers returns everything that the machine holds for the checkout.
func (c *checkout) leftovers() []string {
	c.t.Helper()
	var found []string
	for _, pattern := range []string{
		filepath.Join(registryDir, c.slot),
		"/run/netns/mcs" + c.slot + "-*",
		"/sys/class/net/mcs" + c.slot,
		"/sys/fs/cgroup/multicluster-scheduler-" + c.slot,
		"/sys/fs/cgroup/*/multicluster-scheduler-" + c.slot,
	} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			c.t.Fatal(err)
		}
		found = append(found, matches...)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, c.dir) || strings.Contains(line, registryDir+"/"+c.slot+"/") {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	return append(found, processesOf(c.dir)...)
}

// processesOf returns the processes whose command lines name a folder.
func processesOf(dir string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, file := range files {
		// A process may end between the two calls.
		if content, err := os.ReadFile(file); err == nil && strings.Contains(string(content), dir+"/") {
			found = append(found, fmt.Sprintf("process %s %q", filepath.Base(filepath.Dir(file)), content))
		}
	}
	return found
}
