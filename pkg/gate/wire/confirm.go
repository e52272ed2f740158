package wire

import (
	"context"
	"net"
	"net/http"

	"k8s.io/client-go/rest"
)

// confirming marks the contexts of the requests by which a connection or an answer is confirmed.
type confirming struct{}

// confirmed returns an error if an answer says which objects do not exist, and this is not confirmed.
func (g *guard) confirmed(ctx context.Context, kind request, answer *http.Response) error {
	absent := answer.StatusCode < http.StatusBadRequest && (kind.watch || kind.list != "") ||
		answer.StatusCode == http.StatusNotFound && answer.Request.Method == http.MethodGet
	if !absent || g.confirm == nil || ctx.Value(confirming{}) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, confirming{}, true), g.limits.Request)
	defer cancel()
	return g.confirm(ctx)
}

// prove returns a function that dials as dial does, and returns a connection only if ask succeeds. ask gets a transport
// that makes a connection of its own to the same address, so that it does not ask where an earlier connection leads.
// One that leads elsewhere has seen nothing then.
func prove(dial dialFunc, fresh func() *http.Transport, ask func(context.Context, http.RoundTripper) error) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		probe := fresh()
		defer probe.CloseIdleConnections()
		peer := connection.RemoteAddr().String()
		probe.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dial(ctx, network, peer)
		}
		if err := ask(context.WithValue(ctx, confirming{}, true), probe); err != nil {
			_ = connection.Close() // The reason counts.
			return nil, err
		}
		return connection, nil
	}
}

// proving makes new connections of the guard's transport prove where they lead. fresh returns another such transport.
func (g *guard) proving(
	to *http.Transport, config, hardened *rest.Config, fresh func() *http.Transport, options Options,
) {
	ask := func(ctx context.Context, probe http.RoundTripper) error {
		alone := *g
		alone.next = probe
		transport, err := rest.HTTPWrappersForConfig(config, &alone)
		if err != nil {
			return err
		}
		by := rest.CopyConfig(hardened)
		by.Transport = transport
		return options.Confirm(ctx, by)
	}
	to.DialContext = prove(to.DialContext, fresh, ask)
}
