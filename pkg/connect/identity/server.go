package identity

import (
	"context"
	"crypto"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
)

// maxTries is how many connections to this cluster are made. Its API servers, of which there may be several behind one
// address, can have a key each.
const maxTries = 20

// SameServer says whether a connection, of which there is the transport, leads to an API server of the cluster that
// own leads to: whether this cluster has a server with the private key that the connection's server has shown. It can
// say no although the answer is yes, if different certificates are shown on the two ways.
func SameServer(ctx context.Context, own *rest.Config, host string, transport http.RoundTripper) (bool, error) {
	here, _, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return false, fmt.Errorf("reading this cluster's address: %w", err)
	}
	target, err := url.Parse(host)
	if err != nil {
		return false, fmt.Errorf("reading the target's address: %w", err)
	}
	wanted, err := serverKey(ctx, target, transport)
	if err != nil {
		return false, fmt.Errorf("asking the target for its certificate: %w", err)
	}
	security, err := rest.TLSConfigFor(own)
	if err != nil {
		return false, fmt.Errorf("reading this cluster's certificates: %w", err)
	}
	anew := &http.Transport{TLSClientConfig: security, DisableKeepAlives: true, Proxy: own.Proxy, DialContext: own.Dial}
	for range maxTries {
		key, err := serverKey(ctx, here, anew)
		if err != nil {
			return false, fmt.Errorf("asking this cluster for its certificate: %w", err)
		}
		if key.Equal(wanted) {
			return true, nil
		}
	}
	return false, nil
}

// publicKey is what all public keys of the standard library have.
type publicKey interface {
	Equal(other crypto.PublicKey) bool
}

// serverKey returns the public key of the server that answers. The transport has verified its certificate, and that it
// has the private key. What it answers does not matter.
func serverKey(ctx context.Context, address *url.URL, transport http.RoundTripper) (publicKey, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("version").String(), nil)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	return keyOf(answer.TLS), answer.Body.Close()
}

// noKey is the key of a server without a certificate. It equals none.
type noKey struct{}

// Equal returns false.
func (noKey) Equal(crypto.PublicKey) bool { return false }

func keyOf(state *tls.ConnectionState) publicKey {
	if state != nil && len(state.PeerCertificates) > 0 {
		if key, ok := state.PeerCertificates[0].PublicKey.(publicKey); ok {
			return key
		}
	}
	return noKey{}
}
