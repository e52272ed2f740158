package env

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// orphaning marks the child process of TestControlPlanesEndWithTestsThatAreKilled.
const orphaning = "MULTICLUSTER_TEST_ORPHANING"

// TestControlPlanesEndWithTestsThatAreKilled starts tests with a control plane in a child process, and kills them.
func TestControlPlanesEndWithTestsThatAreKilled(t *testing.T) {
	if os.Getenv(orphaning) != "" {
		host, err := url.Parse(Start(t, "c1")[0].Config.Host)
		Must(t, err)
		fmt.Println("serves at " + host.Host)
		_, _ = io.Copy(io.Discard, os.Stdin) // until somebody kills us, or our parent ends
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), orphaning+"=yes")
	_, err := child.StdinPipe()
	Must(t, err)
	output, err := child.StdoutPipe()
	Must(t, err)
	Must(t, child.Start())
	var host string
	for lines := bufio.NewScanner(output); host == "" && lines.Scan(); {
		_, host, _ = strings.Cut(lines.Text(), "serves at ")
	}
	if host == "" {
		t.Fatalf("the child did not start a control plane")
	}
	Must(t, child.Process.Kill())
	_ = child.Wait() // It was killed.
	Eventually(t, func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
		if err == nil {
			_ = connection.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("dialing the API server at %s: %w, want that it does not listen any more", host, err)
		}
		return nil
	})
}
