package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// rounds are the options with which the suite of faults runs: in its short form, or for a round that loses the target.
func (b breakage) rounds() []string {
	if b.loss {
		return []string{"-seed", "1", "-first", "12", "-rounds", "1"} // Each seed has a loss in round 12.
	}
	return []string{"-short"}
}

// tryOnClusters deploys the product with the breakage in the clusters of this checkout, and runs the suite of faults.
// It returns whether the suite found the breakage, and what it says.
func tryOnClusters(ctx context.Context, b breakage) (found bool, text string, err error) {
	folder, err := os.MkdirTemp("", "breakage")
	if err != nil {
		return false, "", err
	}
	defer os.RemoveAll(folder)
	overlay, err := b.overlay(folder)
	if err != nil {
		return false, "", err
	}
	if err := load(ctx, "GOFLAGS=-overlay="+overlay); err != nil {
		return false, "", err
	}
	began := time.Now()
	args := append([]string{"run", "./test/faults"}, b.rounds()...)
	output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	if err == nil {
		return false, "not found", nil
	}
	abandon(ctx, string(output))
	other := ""
	for line := range strings.Lines(string(output)) {
		_, what, found := strings.Cut(line, "BROKEN: ")
		if found && b.breaks(what) {
			after := time.Since(began).Round(time.Second)
			return true, fmt.Sprintf("found after %s: %s", after, strings.TrimSpace(what)), nil
		}
		if found {
			other = what
		}
	}
	if other != "" {
		return false, "not found, but another promise is broken: " + strings.TrimSpace(other), nil
	}
	return false, "", fmt.Errorf("the suite does not run: %w\n%s", err, output)
}

// abandon has the namespace deleted that a run leaves when a promise is broken. Its pods would need room in the next
// run.
func abandon(ctx context.Context, output string) {
	_, after, found := strings.Cut(output, "the pods are in namespace ")
	if !found {
		return
	}
	namespace := strings.Fields(after)[0]
	for _, cluster := range []string{"c1", "c2"} {
		_ = exec.CommandContext(ctx, ".local/bin/kubectl", "--kubeconfig", ".local/kubeconfig", "--context", cluster,
			"delete", "namespace", namespace, "--wait=false").Run()
	}
}

// load builds the product with some environment, and restarts the managers with it.
func load(ctx context.Context, environment ...string) error {
	deploy := exec.CommandContext(ctx, "make", "load-image")
	deploy.Env = append(os.Environ(), environment...)
	if output, err := deploy.CombinedOutput(); err != nil {
		return fmt.Errorf("loading the image: %w\n%s", err, output)
	}
	return nil
}

// overlay writes the files with the breakage, and a file that has the compiler read them in place of the real ones.
func (b breakage) overlay(folder string) (string, error) {
	broken := map[string]string{}
	for i, place := range b.places() {
		content, err := place.apply()
		if err != nil {
			return "", fmt.Errorf("breakage %q: %w", b.name, err)
		}
		file, err := filepath.Abs(place.file)
		if err != nil {
			return "", err
		}
		if broken[file] != "" {
			return "", fmt.Errorf("breakage %q has two places in %s", b.name, place.file)
		}
		broken[file] = filepath.Join(folder, fmt.Sprintf("broken%d.go", i))
		if err := os.WriteFile(broken[file], content, 0o600); err != nil {
			return "", err
		}
	}
	replaces, err := json.Marshal(map[string]any{"Replace": broken})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, replaces, 0o600)
}
