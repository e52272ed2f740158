package porttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports of Free. No kernel gives them to a program that asks for any port, as control planes do: Linux begins at
// 32768.
const (
	leastPort, mostPort = 20000, 29999
	portAttempts        = 1000
)

// T is the part of *testing.T that this package uses.
type T interface {
	Helper()
	Context() context.Context
	Cleanup(do func())
	Fatalf(format string, arguments ...any)
}

// Free returns a TCP port at which a program may listen until the test ends. No other test gets it, also of another
// process: Free keeps the UDP port with the same number.
func Free(t T) int {
	t.Helper()
	var listen net.ListenConfig
	for range portAttempts {
		port := leastPort + rand.IntN(mostPort-leastPort+1) //nolint:gosec // It is no secret.
		kept, err := listen.ListenPacket(t.Context(), "udp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		listener, err := listen.Listen(t.Context(), "tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			_ = kept.Close()
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatalf("closing port %d: %v", port, err)
		}
		t.Cleanup(func() { _ = kept.Close() })
		return port
	}
	t.Fatalf("%d ports between %d and %d are in use", portAttempts, leastPort, mostPort)
	return 0
}
