package connect

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// wire is a TCP connection to a cluster that can be cut, so that nothing passes and nothing is closed.
type wire struct {
	login *rest.Config
	peer  string

	mu    sync.Mutex // guards the fields below
	cut   chan struct{}
	ended chan struct{}
}

func newWire(t *testing.T, login *rest.Config) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	env.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	host, err := url.Parse(login.Host)
	env.Must(t, err)
	w := &wire{login: rest.CopyConfig(login), peer: host.Host, cut: make(chan struct{}), ended: make(chan struct{})}
	w.login.Host = "https://" + listener.Addr().String()
	w.mend()
	t.Cleanup(w.end) // Else connections that are cut would wait for ever.
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go w.pass(connection)
		}
	}()
	return w
}

func (w *wire) pass(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	w.mu.Lock()
	ended := w.ended
	w.mu.Unlock()
	if !w.wait(ended) {
		return
	}
	server, err := net.Dial("tcp", w.peer)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{connection, server}, {server, connection}} {
		go func() {
			defer func() { done <- struct{}{} }()
			buffer := make([]byte, 1<<15)
			for {
				n, err := pair[0].Read(buffer)
				if !w.wait(ended) {
					return
				}
				if _, writeErr := pair[1].Write(buffer[:n]); err != nil || writeErr != nil {
					return
				}
			}
		}()
	}
	select {
	case <-done:
	case <-ended:
	}
}

// end closes the connections of now.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ended)
	w.ended = make(chan struct{})
}

// wait waits until the wire is whole. It returns false if the connection ends before that.
func (w *wire) wait(ended <-chan struct{}) bool {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	select {
	case <-cut:
		return true
	case <-ended:
		return false
	}
}

func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = make(chan struct{})
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.cut)
}
