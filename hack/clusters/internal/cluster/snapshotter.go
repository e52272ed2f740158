package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// snapshotter returns the way in which containerd keeps images: as overlays or as copies. Some file systems, an overlay
// for example, cannot carry overlays, so snapshotter tries to mount one on the file system of the state.
func (c *Cluster) snapshotter() (string, error) {
	dir := filepath.Join(c.state, "overlay-trial")
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return "", fmt.Errorf("making a folder: %w", err)
		}
	}
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
	kind := "overlayfs"
	if err := unix.Mount("overlay", filepath.Join(dir, "merged"), "overlay", 0, options); err != nil {
		kind = "native"
	}
	err := unix.Unmount(filepath.Join(dir, "merged"), 0)
	if kind == "native" {
		err = nil
	}
	return kind, errors.Join(err, os.RemoveAll(dir))
}
