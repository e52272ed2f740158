// Package hostile has a program that serves a target's API and misbehaves on purpose. Two suites use it:
// test/integration/hostile and test/e2e.
package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Misbehaviour answers a request, or returns false.
type Misbehaviour func(w http.ResponseWriter, r *http.Request) bool

// Server serves a target's API, and misbehaves. It passes requests on to an honest API server, unless its misbehaviour
// answers them. It is safe for concurrent use.
type Server struct {
	// Login leads to the server, with any credentials.
	Login *rest.Config

	honest http.Handler
	see    func(*http.Request)
	http   *httptest.Server

	mu        sync.Mutex // guards behaviour
	behaviour Misbehaviour
}

// New starts a server that behaves, on a free port of a host. It has the rights of the login at the honest API server.
// see is called with each request. The certificate is for loopback addresses.
func New(login *rest.Config, host string, see func(*http.Request)) (*Server, error) {
	transport, err := rest.TransportFor(login)
	if err != nil {
		return nil, fmt.Errorf("making a client of the honest API server: %w", err)
	}
	address, err := url.Parse(login.Host)
	if err != nil {
		return nil, fmt.Errorf("parsing the address of the honest API server: %w", err)
	}
	s := &Server{see: see, honest: &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(address); p.Out.Header.Del("Authorization") },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	s.http = httptest.NewUnstartedServer(s)
	if err := s.http.Listener.Close(); err != nil {
		return nil, fmt.Errorf("closing the default listener: %w", err)
	}
	s.http.Listener, err = net.Listen("tcp", net.JoinHostPort(host, "0")) //nolint:noctx // It is bound at once.
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", host, err)
	}
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	s.Login = &rest.Config{Host: s.http.URL, BearerToken: "any"}
	s.Login.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	return s, nil
}

// Close ends the server and its connections.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// ServeHTTP misbehaves, or passes the request on.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.see(r)
	s.mu.Lock()
	behaviour := s.behaviour
	s.mu.Unlock()
	if behaviour == nil || !behaviour(w, r) {
		s.honest.ServeHTTP(w, r)
	}
}

// Misbehave sets the behaviour from now on, and breaks the connections.
func (s *Server) Misbehave(m Misbehaviour) {
	s.mu.Lock()
	s.behaviour = m
	s.mu.Unlock()
	s.http.CloseClientConnections()
}

// Behave ends the misbehaviour.
func (s *Server) Behave() { s.Misbehave(nil) }

// Alter passes a request on, and changes the JSON of the answer. It is not for watches.
func (s *Server) Alter(w http.ResponseWriter, r *http.Request, change func(answer map[string]any)) {
	answer := httptest.NewRecorder()
	r.Header.Del("Accept-Encoding")
	s.honest.ServeHTTP(answer, r)
	content := map[string]any{}
	if json.Unmarshal(answer.Body.Bytes(), &content) == nil {
		change(content)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Code)
	_ = json.NewEncoder(w).Encode(content)
}

// IsWatch returns whether a request is a watch of a resource.
func IsWatch(r *http.Request, resource string) bool {
	return r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/"+resource)
}

// IsList returns whether a request is a list of a resource.
func IsList(r *http.Request, resource string) bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("watch") == "" && strings.HasSuffix(r.URL.Path, "/"+resource)
}

// IsPath returns whether a request is for a path.
func IsPath(r *http.Request, path string) bool { return r.URL.Path == path }

// SendJSON sends a part of an answer, and returns whether the client still reads.
func SendJSON(w http.ResponseWriter, text string) bool {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	_, err := io.WriteString(w, text)
	return err == nil && http.NewResponseController(w).Flush() == nil
}

// Forever sends a part until the client has enough.
func Forever(w http.ResponseWriter, r *http.Request, part string) {
	for r.Context().Err() == nil && SendJSON(w, part) {
		continue
	}
}

// Bomb sends an object of 300 MB, packed. It costs the sender as good as nothing, because only one part is packed.
func Bomb(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	part := pack(strings.Repeat("a", 1<<20))
	_, err := w.Write(pack(`{"kind":"Status","apiVersion":"v1","message":"`))
	for i := 0; i < 300 && err == nil; i++ {
		_, err = w.Write(part)
	}
}

// pack returns a whole gzip file. Several in a row unpack to their texts in a row.
func pack(part string) []byte {
	var packed bytes.Buffer
	packer := gzip.NewWriter(&packed)
	_, _ = io.WriteString(packer, part) // A buffer returns no errors.
	_ = packer.Close()
	return packed.Bytes()
}

// Event sends an event of a watch that has this many bytes.
func Event(w http.ResponseWriter, bytes int) {
	SendJSON(w, `{"type":"ADDED","object":{"kind":"PodChaperon","apiVersion":"multicluster.admiralty.io/v1alpha1",`+
		`"metadata":{"name":"`)
	part := strings.Repeat("a", 1<<20)
	for sent := 0; sent < bytes && SendJSON(w, part); sent += len(part) {
		continue
	}
	SendJSON(w, `"}}}`+"\n")
}

// Dribble sends a byte a second.
func Dribble(w http.ResponseWriter, r *http.Request) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for SendJSON(w, "{") {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}

// Invented is the format of an event: its type, and a PodChaperon.
const Invented = `{"type":%q,"object":%s}` + "\n"

// Listed is the event that ends the initial events of a watch.
const Listed = `{"type":"BOOKMARK","object":{"kind":"PodChaperon","apiVersion":"multicluster.admiralty.io/v1alpha1",` +
	`"metadata":{"resourceVersion":"1","annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"}}}}` + "\n"
