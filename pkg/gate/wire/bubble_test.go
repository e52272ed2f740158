package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// pipes is a network in a bubble: a goroutine that waits for it lets the time of the bubble pass.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case connection := <-p.accept:
		return connection, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.accept <- theirs:
		return mine, nil
	case <-p.closed:
		return nil, errors.Join(net.ErrClosed, mine.Close(), theirs.Close())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), mine.Close(), theirs.Close())
	}
}

// newBubbleFixture returns a fixture for a bubble, in which its server is, too. The server speaks HTTP/1.1.
func newBubbleFixture(t *testing.T, limits Limits, serve http.HandlerFunc, with ...func(*Options)) *fixture {
	t.Helper()
	network := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	server, served := &http.Server{Handler: serve}, make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(network)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	f := &fixture{account: NewAccount(limits, clock.RealClock{}), url: "http://target", close: server.Close}
	var err error
	options := Options{Limits: limits, Account: f.account}
	for _, change := range with {
		change(&options)
	}
	f.connection, err = Harden(&rest.Config{Host: f.url, QPS: -1, Proxy: direct}, options)
	if err != nil {
		t.Fatal(err)
	}
	f.connection.roads.requests.DialContext = network.dial
	t.Cleanup(f.connection.Close)
	if f.client, err = kubernetes.NewForConfig(f.connection.Config()); err != nil {
		t.Fatal(err)
	}
	return f
}

// direct is no proxy.
func direct(*http.Request) (*url.URL, error) { return nil, nil } //nolint:nilnil // as in net/http

// readAll reads a body to its end, and returns how many bytes it had.
func readAll(body io.Reader) <-chan readResult {
	result := make(chan readResult, 1)
	go func() {
		n, err := io.Copy(io.Discard, body)
		result <- readResult{n, err}
	}()
	return result
}

type readResult struct {
	n   int64
	err error
}

// isTimeout says whether an error is a TimeoutError about this.
func isTimeout(err error, what string) bool {
	timeout := (*TimeoutError)(nil)
	return errors.As(err, &timeout) && timeout.What == what
}
