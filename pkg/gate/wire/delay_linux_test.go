package wire

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// userTimeout returns for how long the kernel sends again on a connection.
func userTimeout(t *testing.T, connection net.Conn) time.Duration {
	t.Helper()
	raw, err := connection.(*net.TCPConn).SyscallConn() //nolint:forcetypeassert // It is a test.
	if err != nil {
		t.Fatal(err)
	}
	var milliseconds int
	err = raw.Control(func(socket uintptr) {
		var failed error
		milliseconds, failed = unix.GetsockoptInt(int(socket), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		if failed != nil {
			t.Error(failed)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(milliseconds) * time.Millisecond
}

func TestTheKernelDeliversNothingThatIsOutOfDate(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	base := &url.URL{Scheme: "https", Host: listener.Addr().String()}
	proxy := &url.URL{Scheme: "http", Host: "proxy.invalid"}
	for name, config := range map[string]*rest.Config{
		"directly": {}, "by a proxy": {Proxy: func(*http.Request) (*url.URL, error) { return proxy, nil }},
	} {
		for rules, dial := range map[string]Dial{"any address": {}, "checked": {Check: allow}} {
			_, connect := dial.route(config, base)
			connection, err := connect(t.Context(), "tcp", base.Host)
			if err != nil {
				t.Fatal(err)
			}
			if within := userTimeout(t, connection); within <= 0 || within >= timeouts.LeaseDuration {
				t.Errorf("%s, %s: the kernel sends again for %s", name, rules, within)
			}
			_ = connection.Close()
		}
	}
}

func allow(netip.Addr) error { return nil }
