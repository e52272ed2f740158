package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// lingerTimeout bounds how long a caller may keep an upgraded connection after the target ended its own. A slow caller
// has some megabytes in the buffers of the kernel then, and loses them if the connection is closed.
const lingerTimeout = 2 * time.Minute

// upgrading is a ResponseWriter that remembers the caller's connection when the request is upgraded.
type upgrading struct {
	http.ResponseWriter

	connection net.Conn // nil before the upgrade
}

// Unwrap returns the ResponseWriter for http.ResponseController.
func (u *upgrading) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// Hijack returns the caller's connection.
func (u *upgrading) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	connection, buffer, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("upgrading the caller's connection: %w", err)
	}
	u.connection = connection
	return connection, buffer, nil
}

// upgraded is the connection to the target. Streams that end by halves do so within their protocol, SPDY or WebSocket.
// The connections end as a whole, as those of API servers do.
type upgraded struct {
	io.ReadWriteCloser

	ended func()
}

// Read reads what the target sends, and reports its end.
func (u *upgraded) Read(p []byte) (int, error) {
	n, err := u.ReadWriteCloser.Read(p)
	if err != nil {
		u.ended()
	}
	if isReset(err) || errors.Is(err, io.ErrUnexpectedEOF) {
		return n, io.EOF // What arrived is still on its way to the caller.
	}
	return n, err //nolint:wrapcheck // It may be io.EOF.
}

// Write passes on what the caller sends. A target that has ended its connection takes nothing more, and what it sent
// before may still be on its way to the caller, who sends signs of life meanwhile. They are dropped.
func (u *upgraded) Write(p []byte) (int, error) {
	n, err := u.ReadWriteCloser.Write(p)
	if isReset(err) {
		u.ended() // Nobody reads the end while the caller takes nothing.
		return len(p), nil
	}
	return n, err //nolint:wrapcheck // ReverseProxy logs it.
}

// isReset says whether the other end has closed the connection.
func isReset(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// CloseWrite closes the connection, because the caller ended its own. Nobody reads any more what the target sends.
func (u *upgraded) CloseWrite() error { return u.Close() }

// join makes the connections of the caller and of the target end together, and returns true, if the answer is an
// upgrade. The caller has some time to receive what the target sent last. ctx ends with the request.
func (s *Server) join(ctx context.Context, caller *upgrading, answer *http.Response) bool {
	connection, ok := answer.Body.(io.ReadWriteCloser)
	if !ok || answer.StatusCode != http.StatusSwitchingProtocols {
		return false
	}
	answer.Body = &upgraded{connection, sync.OnceFunc(func() {
		timer := s.options.Clock.AfterFunc(lingerTimeout, func() { _ = caller.connection.Close() })
		context.AfterFunc(ctx, func() { timer.Stop() })
	})}
	return true
}
