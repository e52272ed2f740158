package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/wait"
)

// Group is one path in all hierarchies.
type Group struct {
	in   Hierarchies
	path string
}

// At returns the group with a path relative to the roots of the hierarchies. The group need not exist.
func (h Hierarchies) At(path string) Group {
	return Group{in: h, path: path}
}

// Create makes the group and its parents, unless they exist, so that they can hold pods.
func (g Group) Create() error {
	for _, mount := range g.in.mounts() {
		parent := mount
		for name := range strings.SplitSeq(g.path, "/") {
			if err := g.createIn(parent, name); err != nil {
				return fmt.Errorf("making control group %q: %w", filepath.Join(parent, name), err)
			}
			parent = filepath.Join(parent, name)
		}
	}
	return nil
}

func (g Group) createIn(parent, name string) error {
	if g.in.Unified() && parent == g.in.V2 || g.in.Unified() && strings.HasPrefix(parent, g.in.V2+"/") {
		if err := delegate(parent); err != nil {
			return err
		}
	}
	child := filepath.Join(parent, name)
	if err := os.Mkdir(child, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if err := inheritSet(parent, child, file); err != nil {
			return err
		}
	}
	return nil
}

// delegate enables the controllers of a version 2 group for its children.
func delegate(parent string) error {
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(controllers)) {
		err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+name), 0)
		if err != nil && slices.Contains(required(), name) {
			return err
		}
	}
	return nil
}

// inheritSet copies the set of processors or of memory nodes from the parent to a new version 1 cpuset. Such a set is
// empty at first, and a group with an empty set can hold no process.
func inheritSet(parent, child, file string) error {
	from, err := os.ReadFile(filepath.Join(parent, file))
	if errors.Is(err, os.ErrNotExist) || len(strings.TrimSpace(string(from))) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	to, err := os.ReadFile(filepath.Join(child, file))
	if err != nil || len(strings.TrimSpace(string(to))) > 0 {
		return err
	}
	return os.WriteFile(filepath.Join(child, file), from, 0)
}

// Join moves the calling process into the group.
func (g Group) Join() error {
	for _, mount := range g.in.mounts() {
		err := os.WriteFile(filepath.Join(mount, g.path, "cgroup.procs"), []byte("0"), 0)
		if err != nil {
			return fmt.Errorf("joining control group %q: %w", filepath.Join(mount, g.path), err)
		}
	}
	return nil
}

// Processes returns the IDs of the processes in the group and below it.
func (g Group) Processes() ([]int, error) {
	found := map[int]bool{}
	for _, dir := range g.dirs() {
		content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing the processes of a control group: %w", err)
		}
		for field := range strings.FieldsSeq(string(content)) {
			// Zero stands for a process that this process namespace cannot see.
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				found[pid] = true
			}
		}
	}
	var pids []int
	for pid := range found {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids, nil
}

// Remove kills every process in the group and below it, and removes the group. It does nothing if the group does not
// exist.
func (g Group) Remove(ctx context.Context) error {
	err := wait.Until(ctx, "all processes have ended", func(context.Context) (bool, error) {
		pids, err := g.Processes()
		for _, pid := range pids {
			// A process that has already ended is no error.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(pids) == 0, err
	})
	if err != nil {
		return fmt.Errorf("killing the processes of control group %q: %w", g.path, err)
	}
	return wait.Until(ctx, "control groups are gone", func(context.Context) (bool, error) {
		gone := true
		for _, dir := range g.dirs() {
			if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				gone = false
			}
		}
		return gone, nil
	})
}

// dirs returns the folders of the group and of all groups below it, in all hierarchies, the deepest first.
func (g Group) dirs() []string {
	var dirs []string
	for _, mount := range g.in.mounts() {
		// Groups come and go during the walk. A folder that cannot be read has been removed.
		_ = filepath.WalkDir(filepath.Join(mount, g.path), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	slices.Reverse(dirs)
	return dirs
}
