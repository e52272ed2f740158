package namespace

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

const netnsDir = "/run/netns"

// NetPath is the file to which the network namespace of a name is pinned.
func NetPath(name string) string {
	return filepath.Join(netnsDir, name)
}

// NetPinned tells whether there is a network namespace of a name.
func NetPinned(name string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(NetPath(name), &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// Enter moves the calling thread, which must be locked, into the namespaces pinned to files; an empty path is skipped.
func Enter(mountPath, netPath string) error {
	if netPath != "" {
		if err := enter(netPath, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering network namespace %q: %w", netPath, err)
		}
	}
	if mountPath == "" {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leaving the working folder of other threads: %w", err)
	}
	if err := enter(mountPath, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("entering mount namespace %q: %w", mountPath, err)
	}
	return nil
}

// InNet calls run in the network namespace of a name.
func InNet(name string, run func() error) error {
	result := make(chan error, 1)
	go func() {
		// The thread ends with this function, because it is never unlocked.
		runtime.LockOSThread()
		err := Enter("", NetPath(name))
		if err == nil {
			err = run()
		}
		result <- err
	}()
	return <-result
}

func enter(path string, kind int) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return unix.Setns(int(file.Fd()), kind)
}
