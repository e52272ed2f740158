package kube

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestClient(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes/a", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"metadata":{"name":"a"}}`))
	})
	mux.HandleFunc("POST /api/v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
	})
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	client := &Client{server: server.URL, http: server.Client()}

	var node struct {
		Metadata struct{ Name string }
	}
	if err := client.Get(t.Context(), "/api/v1/nodes/a", &node); err != nil || node.Metadata.Name != "a" {
		t.Errorf("node %+v, %v", node, err)
	}
	for want, err := range map[int]error{
		http.StatusNotFound: client.Get(t.Context(), "/api/v1/nodes/b", &node),
		http.StatusConflict: client.Create(t.Context(), "/api/v1/nodes", node),
	} {
		var status StatusError
		if !errors.As(err, &status) || status.Code != want {
			t.Errorf("got %v, want status %d", err, want)
		}
	}
}
