package kubeconfig_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/kubeconfig"
)

// publicServer is an API server with a certificate that this process trusts as if its authority was a public one.
var publicServer = sync.OnceValue(func() *httptest.Server {
	server := httptest.NewTLSServer(http.NotFoundHandler()) // until the process ends
	authorities := x509.NewCertPool()
	authorities.AddCert(server.Certificate())
	x509.SetFallbackRoots(authorities) // once in a process
	return server
})

func TestAKubeconfigWithoutAnAuthorityTrustsPublicCertificates(t *testing.T) {
	t.Setenv("GODEBUG", "x509usefallbackroots=1")
	config, err := kubeconfig.Parse([]byte(`
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "`+publicServer().URL+`"}}]
users: [{name: u, user: {token: secret-token}}]
`), "", kubeconfig.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}
