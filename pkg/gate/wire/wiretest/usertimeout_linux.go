// Package wiretest looks at connections, for tests.
package wiretest

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// UserTimeout returns for how long the kernel sends again on a TCP connection, with TLS or without.
func UserTimeout(t testing.TB, connection net.Conn) time.Duration {
	t.Helper()
	if secured, ok := connection.(*tls.Conn); ok {
		connection = secured.NetConn()
	}
	raw, err := connection.(*net.TCPConn).SyscallConn() //nolint:forcetypeassert // The test fails.
	if err != nil {
		t.Fatal(err)
	}
	var milliseconds int
	var failed error
	err = raw.Control(func(socket uintptr) {
		milliseconds, failed = unix.GetsockoptInt(int(socket), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return time.Duration(milliseconds) * time.Millisecond
}

// UserTimeoutOf returns the UserTimeout of the connection on which a client gets an address.
func UserTimeoutOf(t testing.TB, client *http.Client, address string) time.Duration {
	t.Helper()
	var within time.Duration
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		within = UserTimeout(t, got.Conn)
	}})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return within
}
