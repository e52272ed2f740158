package namespace

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

const netnsDir = "/run/netns"

// NetPath returns the pin of the network namespace with the given name.
func NetPath(name string) string {
	return filepath.Join(netnsDir, name)
}

// NetPinned reports whether a network namespace with the given name exists.
func NetPinned(name string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(NetPath(name), &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// Enter moves the calling thread, which must be locked, into the namespaces with the given pins. It skips an empty
// path.
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

// InNet calls run in the network namespace with the given name.
func InNet(name string, run func() error) error {
	result := make(chan error, 1)
	go func() {
		// This function never unlocks the thread, so the thread ends with the function.
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
