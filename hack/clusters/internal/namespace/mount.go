package namespace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// CreateMount makes a mount namespace, and pins it to the file at path. In the namespace, the folder in each value of
// binds replaces the folder in its key. The caller must have called Private for the folder of the pin.
func CreateMount(path string, binds map[string]string) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("making the pin of a mount namespace: %w", err)
	}
	made, pinned := make(chan error), make(chan struct{})
	thread := make(chan int, 1)
	go func() {
		// The thread cannot return to its old namespaces. This function never unlocks it, so the thread ends with it.
		runtime.LockOSThread()
		thread <- unix.Gettid()
		made <- setUp(binds)
		<-pinned
	}()
	defer close(pinned)
	tid := <-thread
	if err := <-made; err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/mnt", tid), path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("pinning a mount namespace: %w", err)
	}
	return nil
}

func setUp(binds map[string]string) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := detachNamespaces(); err != nil {
		return err
	}
	for target, source := range binds {
		if err := bind(source, target); err != nil {
			return err
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("making mounts shared among pods: %w", err)
	}
	return nil
}

// detachNamespaces unmounts this mount namespace's copies of the pins of network namespaces. The copies would outlive
// the pins, and keep the network namespaces.
func detachNamespaces() error {
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return fmt.Errorf("reading mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], netnsDir+"/") {
			continue
		}
		if err := unix.Unmount(fields[4], unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("detaching %q: %w", fields[4], err)
		}
	}
	return nil
}

func bind(source, target string) error {
	for _, dir := range []string{source, target} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %q on %q: %w", source, target, err)
	}
	return nil
}

// MountPinned reports whether a mount namespace is pinned to the file at path.
func MountPinned(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// UnpinMount removes the pin of a mount namespace, which then ends with its last process.
func UnpinMount(path string) error {
	for MountPinned(path) {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unpinning a mount namespace: %w", err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the pin of a mount namespace: %w", err)
	}
	return nil
}

// Private makes dir a mount that other mount namespaces do not share. The pins of mount namespaces need such a folder.
func Private(dir string) error {
	mounted, err := isMountPoint(dir)
	if err != nil {
		return err
	}
	if !mounted {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %q on itself: %w", dir, err)
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mount %q private: %w", dir, err)
	}
	return nil
}

// Unprivate undoes Private.
func Unprivate(dir string) error {
	mounted, err := isMountPoint(dir)
	if err != nil || !mounted {
		return err
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting %q: %w", dir, err)
	}
	return nil
}

func isMountPoint(dir string) (bool, error) {
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return false, fmt.Errorf("reading mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == filepath.Clean(dir) {
			return true, nil
		}
	}
	return false, nil
}
