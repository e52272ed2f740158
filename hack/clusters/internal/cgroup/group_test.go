package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write writes a file, and makes its folder.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNewCpusetsGetTheSetsOfTheirParents(t *testing.T) {
	mount := t.TempDir()
	write(t, filepath.Join(mount, "cpuset.cpus"), "0-1\n")
	write(t, filepath.Join(mount, "cpuset.mems"), "0\n")
	// The kernel makes these files with each folder.
	for _, dir := range []string{"a", "a/b"} {
		write(t, filepath.Join(mount, dir, "cpuset.cpus"), "\n")
		write(t, filepath.Join(mount, dir, "cpuset.mems"), "\n")
	}
	h := Hierarchies{V1: map[string]string{"cpuset": mount, "memory": t.TempDir()}}
	if err := h.At("a/b").Create(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(mount, "a", "b", "cpuset.cpus"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != "0-1\n" {
		t.Errorf("processors %q", got)
	}
	if _, err := os.Stat(filepath.Join(h.V1["memory"], "a", "b")); err != nil {
		t.Error(err)
	}
}

func TestProcessesAreThoseOfAllHierarchiesAndBelow(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	write(t, filepath.Join(one, "a", "cgroup.procs"), "11\n")
	write(t, filepath.Join(one, "a", "b", "c", "cgroup.procs"), "12\n0\n")
	write(t, filepath.Join(two, "a", "cgroup.procs"), "11\n13\n")
	write(t, filepath.Join(two, "other", "cgroup.procs"), "99\n")
	got, err := Hierarchies{V1: map[string]string{"cpu": one, "memory": two}}.At("a").Processes()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{11, 12, 13}, got); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}

func TestRemovingAMissingGroupIsNoError(t *testing.T) {
	h := Hierarchies{V1: map[string]string{"cpu": t.TempDir()}}
	if err := h.At("a").Remove(t.Context()); err != nil {
		t.Error(err)
	}
}
