package hostile

import (
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// misbehaviour answers a request, or returns false.
type misbehaviour func(w http.ResponseWriter, r *http.Request) bool

// server serves a target's API, and misbehaves.
type server struct {
	// login leads to the server, with any credentials.
	login    *rest.Config
	requests env.Journal

	honest http.Handler
	http   *httptest.Server

	mu        sync.Mutex // guards behaviour
	behaviour misbehaviour
}

// newServer starts a server that behaves.
func newServer(t *testing.T) *server {
	t.Helper()
	transport, err := rest.TransportFor(c2Source)
	env.Must(t, err)
	address, err := url.Parse(c2Source.Host)
	env.Must(t, err)
	s := &server{honest: &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(address); p.Out.Header.Del("Authorization") },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	s.http = httptest.NewUnstartedServer(s)
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	t.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
	})
	s.login = &rest.Config{Host: s.http.URL, BearerToken: "any"}
	s.login.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	return s
}

// ServeHTTP misbehaves, or passes the request on.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(r.Method + " " + r.URL.String())
	s.mu.Lock()
	behaviour := s.behaviour
	s.mu.Unlock()
	if behaviour == nil || !behaviour(w, r) {
		s.honest.ServeHTTP(w, r)
	}
}

// misbehave sets the behaviour from now on, and breaks the connections.
func (s *server) misbehave(m misbehaviour) {
	s.mu.Lock()
	s.behaviour = m
	s.mu.Unlock()
	s.http.CloseClientConnections()
}

// behave ends the misbehaviour.
func (s *server) behave() { s.misbehave(nil) }

// alter passes a request on, and changes the JSON of the answer. It is not for watches.
func (s *server) alter(w http.ResponseWriter, r *http.Request, change func(answer map[string]any)) {
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

func isWatch(r *http.Request, resource string) bool {
	return r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/"+resource)
}

func isList(r *http.Request, resource string) bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("watch") == "" && strings.HasSuffix(r.URL.Path, "/"+resource)
}

func isPath(r *http.Request, path string) bool { return r.URL.Path == path }

// sendJSON sends a part of an answer, and returns whether the client still reads.
func sendJSON(w http.ResponseWriter, text string) bool {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	_, err := io.WriteString(w, text)
	return err == nil && http.NewResponseController(w).Flush() == nil
}

// forever sends a part until the client has enough.
func forever(w http.ResponseWriter, r *http.Request, part string) {
	for r.Context().Err() == nil && sendJSON(w, part) {
		continue
	}
}

// bomb sends an object of 300 MB, packed.
func bomb(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	packer := gzip.NewWriter(w)
	defer func() { _ = packer.Close() }()
	part := []byte(strings.Repeat("a", 1<<20))
	_, err := io.WriteString(packer, `{"kind":"Status","apiVersion":"v1","message":"`)
	for i := 0; i < 300 && err == nil; i++ {
		_, err = packer.Write(part)
	}
}

// event sends an event of a watch that has this many bytes.
func event(w http.ResponseWriter, bytes int) {
	sendJSON(w, `{"type":"ADDED","object":{"kind":"PodChaperon","apiVersion":"multicluster.admiralty.io/v1alpha1",`+
		`"metadata":{"name":"`)
	part := strings.Repeat("a", 1<<20)
	for sent := 0; sent < bytes && sendJSON(w, part); sent += len(part) {
		continue
	}
	sendJSON(w, `"}}}`+"\n")
}

// dribble sends a byte a second.
func dribble(w http.ResponseWriter, r *http.Request) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for sendJSON(w, "{") {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}
