package wire

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundDelay makes the kernel give a connection up if the other side confirms nothing for deliveredWithin. The kernel
// of a process that is frozen would send a request again for a quarter of an hour, and so deliver it at the end of a
// partition: long after the next leader has begun.
func boundDelay(connection syscall.RawConn) error {
	var failed error
	err := connection.Control(func(socket uintptr) {
		failed = unix.SetsockoptInt(
			int(socket), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deliveredWithin.Milliseconds()))
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("bounding how long requests are sent again: %w", err)
	}
	return nil
}
