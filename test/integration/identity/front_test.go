package identity

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// front is a server that passes requests on to clusters, with the source's login there.
type front struct {
	// login leads to the front.
	login  *rest.Config
	server *httptest.Server

	mu sync.Mutex // guards to
	// to returns the cluster for a request, or an HTTP status.
	to func(r *http.Request) (*env.Cluster, int)
}

// newFront returns a front that leads to a cluster.
func newFront(t *testing.T, cluster *env.Cluster) *front {
	t.Helper()
	f := &front{}
	f.leadTo(cluster)
	passes := map[*env.Cluster]http.Handler{}
	for cluster, login := range logins {
		passes[cluster] = passTo(t, login)
	}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		to := f.to
		f.mu.Unlock()
		cluster, status := to(r)
		if cluster == nil {
			w.WriteHeader(status)
			return
		}
		passes[cluster].ServeHTTP(w, r)
	}))
	f.server.EnableHTTP2 = true
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	t.Cleanup(f.server.CloseClientConnections) // Close waits for requests, and watches have no end.
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	f.login = &rest.Config{
		Host: f.server.URL, BearerToken: "any", TLSClientConfig: rest.TLSClientConfig{CAData: authority},
	}
	return f
}

func passTo(t *testing.T, login *rest.Config) http.Handler {
	t.Helper()
	address, err := url.Parse(login.Host)
	env.Must(t, err)
	transport, err := rest.TransportFor(login)
	env.Must(t, err)
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(address)
			r.Out.Header.Del("Authorization")
		},
		Transport:     transport,
		FlushInterval: -1,
	}
}

// route decides from now on where requests go. Requests that are under way stay where they are.
func (f *front) route(to func(r *http.Request) (*env.Cluster, int)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to = to
}

// leadTo passes all requests on to a cluster.
func (f *front) leadTo(cluster *env.Cluster) {
	f.route(func(*http.Request) (*env.Cluster, int) { return cluster, 0 })
}
