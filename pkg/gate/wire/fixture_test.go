package wire

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// fixture is a connection to a server that a test plays.
type fixture struct {
	account    *Account
	connection *Connection
	client     kubernetes.Interface
	server     *httptest.Server // nil in a bubble
	url        string           // of a server in a bubble
	close      func() error     // ends a server in a bubble
	confirm    func(context.Context, *rest.Config) error
}

// newFixture returns a fixture whose server speaks HTTP/2 over TLS.
func newFixture(t *testing.T, limits Limits, clock clock.WithDelayedExecution, serve http.HandlerFunc) *fixture {
	t.Helper()
	limits = patient(limits)
	f := &fixture{account: NewAccount(limits, clock)}
	f.server = httptest.NewUnstartedServer(serve)
	f.server.EnableHTTP2 = true
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	return f.connect(t, limits, Dial{})
}

// patient gives a server all the time that a busy machine needs.
func patient(limits Limits) Limits {
	limits.Request, limits.Relist, limits.Frame = time.Hour, time.Hour, time.Hour
	return limits
}

// confirmBy makes the fixture's client confirm connections and answers.
func (f *fixture) confirmBy(t *testing.T, confirm func(context.Context, *rest.Config) error) {
	t.Helper()
	f.confirm = confirm
	f.connect(t, patient(Default()), Dial{})
}

func (f *fixture) connect(t *testing.T, limits Limits, dial Dial) *fixture {
	t.Helper()
	config := &rest.Config{Host: f.server.URL, QPS: -1, BearerToken: "token"}
	config.Insecure = true
	// Some clients ask for protobuf.
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	var err error
	f.connection, err = Harden(config, Options{
		Limits: limits, Account: f.account, Dial: dial, Confirm: f.confirm,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.connection.Close)
	f.client, err = kubernetes.NewForConfig(f.connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) get(t *testing.T) error {
	t.Helper()
	_, err := f.client.CoreV1().ConfigMaps("a").Get(t.Context(), "b", metav1.GetOptions{})
	return err
}

func sendJSON(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

// watch returns the raw stream of a watch, or of a list that ends never.
func (f *fixture) watch(t *testing.T, query string) io.ReadCloser {
	t.Helper()
	return f.begin(t, query).Body
}

// begin returns the answer to a watch or a list.
func (f *fixture) begin(t *testing.T, query string) *http.Response {
	t.Helper()
	host := f.url
	if f.server != nil {
		host = f.server.URL
	}
	location := host + "/api/v1/configmaps?" + query
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, location, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f.connection.Config().Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}
