package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

const (
	dialTimeout = 10 * time.Second
	idleTimeout = 90 * time.Second
	// A connection that was silent for pingAfter is pinged. It is closed if no answer comes within pingTimeout.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
	// deliveredWithin is how long the kernel goes on sending what it was given, whatever becomes of the process. It is
	// less than the time after which the next leader may begin.
	deliveredWithin = timeouts.HoldEnds
	// streamBuffer is the number of bytes that HTTP/2 buffers for an answer that nobody reads.
	streamBuffer = 256 << 10
)

// Options of Harden. Limits and Account are required.
type Options struct {
	Limits  Limits
	Account *Account
	Dial    Dial
	// Turn is shared by targets that may not send large lists at the same time. It may be nil.
	Turn *Turn
	// Fence stops writes. If it is nil, nothing does.
	Fence *Fence
	// Confirm asks by a configuration whether it leads to the right cluster. It is called before a new connection is
	// used, and after each answer that says which objects do not exist: a list, a watch, or a read that found nothing.
	// The connection is used, and the answer counts, only if Confirm returns nil. It may be nil.
	Confirm func(ctx context.Context, config *rest.Config) error
	// Answered is called after each request, except lists and watches, and those that the caller gave up. It gets the
	// status of the answer, which is 0 if there was none. It may be nil.
	Answered func(status int, took time.Duration)
}

// Connection has the hardened transports to one target. It is safe for concurrent use.
type Connection struct {
	config *rest.Config
	roads  *roads
	pace   *pace
}

// roads is the outermost RoundTripper of a hardened configuration. HardenStreams finds the transport of streams there.
type roads struct {
	http.RoundTripper

	requests, streams *http.Transport
	toStreams         http.RoundTripper
}

// Harden returns a connection to the API server of a configuration, with its credentials.
func Harden(config *rest.Config, options Options) (*Connection, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address: %w", err)
	}
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	r := &roads{
		requests: newTransport(config, base, security, options),
		streams:  onlyHTTP1(newTransport(config, base, security.Clone(), options)),
	}
	// Credentials and certificates are in the transport. So clients of this configuration cannot make another one.
	hardened := &rest.Config{Host: base.String(), UserAgent: config.UserAgent, QPS: config.QPS, Transport: r}
	guarding := &guard{
		next: r.requests, base: base.Path, limits: &options.Limits, account: options.Account, turn: options.Turn,
		answered: options.Answered, pace: newPace(options.Account.clock),
	}
	if options.Confirm != nil {
		guarding.confirm = func(ctx context.Context) error { return options.Confirm(ctx, hardened) }
		probe := func() *http.Transport { return onlyHTTP1(newTransport(config, base, security.Clone(), options)) }
		guarding.proving(r.requests, config, hardened, probe, options)
		guarding.proving(r.streams, config, hardened, probe, options)
		r.streams.DisableKeepAlives = true // Each stream has a connection that has just proved where it leads.
	}
	var guarded http.RoundTripper = guarding
	if options.Fence != nil {
		guarded = options.Fence.Wrap(guarded)
	}
	if r.RoundTripper, err = rest.HTTPWrappersForConfig(config, guarded); err != nil {
		return nil, fmt.Errorf("reading credentials: %w", err)
	}
	r.toStreams, err = rest.HTTPWrappersForConfig(config, &streamGuard{next: r.streams})
	if err != nil {
		return nil, fmt.Errorf("reading credentials: %w", err)
	}
	return &Connection{config: hardened, roads: r, pace: guarding.pace}, nil
}

// Config returns the configuration of which all clients of the target are made. Clients share the connections.
func (c *Connection) Config() *rest.Config { return c.config }

// WatchFails says whether a watch has failed several times in a row, so that what it should show is out of date.
func (c *Connection) WatchFails() bool { return c.pace.fails() }

// Close closes the connections: the idle ones now, and the others when their requests have ended.
func (c *Connection) Close() {
	c.roads.requests.CloseIdleConnections()
	c.roads.streams.CloseIdleConnections()
}

func newTransport(config *rest.Config, base *url.URL, security *tls.Config, options Options) *http.Transport {
	proxy, dial := options.Dial.route(config, base)
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dial,
		TLSClientConfig:        security,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    25, // for a proxy that speaks only HTTP/1.1
		MaxResponseHeaderBytes: options.Limits.Header,
		ForceAttemptHTTP2:      true,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:           pingAfter,
			PingTimeout:               pingTimeout,
			MaxReceiveBufferPerStream: streamBuffer,
		},
		DisableCompression: config.DisableCompression,
	}
}

// onlyHTTP1 keeps a transport at HTTP/1.1, which upgrades need, and leaves bodies as they are.
func onlyHTTP1(transport *http.Transport) *http.Transport {
	transport.ForceAttemptHTTP2 = false
	transport.HTTP2 = nil
	transport.DisableCompression = true
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	return transport
}

// environmentProxy returns the proxy of the manager's own environment for an address, or nil.
func environmentProxy(base *url.URL) (*url.URL, error) {
	return utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)(&http.Request{URL: base})
}
