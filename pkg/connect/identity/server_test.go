package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// certificate returns a new certificate of 127.0.0.1, with a new key.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// serve starts a server that shows one certificate after the other, and returns its address.
func serve(t *testing.T, certificates ...tls.Certificate) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	var n atomic.Int32
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: certificates[int(n.Add(1)-1)%len(certificates):][:1]}, nil
	}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func TestSameServer(t *testing.T) {
	one, two, three := certificate(t), certificate(t), certificate(t)
	for name, test := range map[string]struct {
		here, there []tls.Certificate
		want        bool
	}{
		"one server":                          {[]tls.Certificate{one}, []tls.Certificate{one}, true},
		"another server":                      {[]tls.Certificate{one}, []tls.Certificate{two}, false},
		"one of several servers":              {[]tls.Certificate{one, two, three}, []tls.Certificate{three}, true},
		"another server than several of them": {[]tls.Certificate{one, two}, []tls.Certificate{three}, false},
	} {
		t.Run(name, func(t *testing.T) {
			own := &rest.Config{Host: serve(t, test.here...), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
			target := &rest.Config{Host: serve(t, test.there...), TLSClientConfig: own.TLSClientConfig}
			transport, err := rest.TransportFor(target)
			if err != nil {
				t.Fatal(err)
			}
			got, err := SameServer(t.Context(), own, target.Host, transport)
			if err != nil || got != test.want {
				t.Errorf("got %t (%v), want %t", got, err, test.want)
			}
		})
	}
}

func TestAServerWithoutACertificateProvesNothing(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	own := &rest.Config{Host: plain.URL}
	same, err := SameServer(t.Context(), own, plain.URL, http.DefaultTransport)
	if err != nil || same {
		t.Errorf("got %t (%v)", same, err)
	}
}

func TestAServerThatShowsNoKeyIsNoServer(t *testing.T) {
	for name, state := range map[string]*tls.ConnectionState{
		"no TLS":                       nil,
		"no certificate":               {},
		"a key of a kind nobody knows": {PeerCertificates: []*x509.Certificate{{PublicKey: "key"}}},
	} {
		if key := keyOf(state); key != (noKey{}) || key.Equal(noKey{}) {
			t.Errorf("%s: the key is %v, want none", name, key)
		}
	}
}
