package porttest

import (
	"fmt"
	"net"
	"testing"
)

func TestAFreePortIsOfOneTest(t *testing.T) {
	taken := map[int]bool{}
	for range 100 {
		port := Free(t)
		if taken[port] {
			t.Errorf("port %d is given twice", port)
		}
		taken[port] = true
		var listen net.ListenConfig
		if other, err := listen.ListenPacket(t.Context(), "udp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = other.Close()
			t.Errorf("another process could get port %d", port)
		}
		program, err := listen.Listen(t.Context(), "tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			t.Fatal(err)
		}
		if err := program.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
