package wire

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestWritesEndWithTheRightAndReadsGoOn(t *testing.T) {
	arrived, never := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			arrived <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-never:
			}
		}
		w.WriteHeader(http.StatusOK)
	}))
	defer server.Close()
	defer close(never)
	fence := &Fence{}
	send := func(ctx context.Context, method, path string) error {
		request, err := http.NewRequestWithContext(ctx, method, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := fenced{server.Client().Transport, fence}.RoundTrip(request)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	right, end := context.WithCancel(t.Context())
	if err := send(t.Context(), http.MethodPut, "/"); err != nil {
		t.Errorf("before there is a right to be lost: %v", err)
	}
	fence.Until(right)
	if err := send(t.Context(), http.MethodPut, "/"); err != nil {
		t.Error(err)
	}
	hanging := make(chan error)
	go func() { hanging <- send(t.Context(), http.MethodPost, "/hang") }()
	<-arrived
	end()
	if err := <-hanging; err == nil {
		t.Error("a write that was under way went on")
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if err := send(t.Context(), method, "/"); !errors.Is(err, errFenced) {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := send(t.Context(), http.MethodGet, "/"); err != nil {
		t.Errorf("a read: %v", err)
	}
	if err := send(Unfenced(t.Context()), http.MethodPut, "/"); err != nil {
		t.Errorf("a write that decides about the right: %v", err)
	}
}
