//go:build !linux

package wire

import "syscall"

// boundDelay does nothing: managers run on Linux.
func boundDelay(syscall.RawConn) error { return nil }
