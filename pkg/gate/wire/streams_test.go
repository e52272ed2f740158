package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

func TestStreamsAreUnboundedInTotal(t *testing.T) {
	const size = 8 << 20 // more than an object
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			t.Errorf("it speaks %s", r.Proto)
		}
		if r.URL.Path == "/error" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write(bytes.Repeat([]byte("a"), size))
	})
	streams, err := HardenStreams(f.connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int64{"/log": size, "/error": 64 << 10} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+path, nil)
		answer, err := streams.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, answer.Body)
		if _ = answer.Body.Close(); n != want || err != nil {
			t.Errorf("%s: %d bytes, %v", path, n, err)
		}
	}
}

// TestEachStreamIsConfirmedBeforeItBegins has a target whose address another cluster gets between two streams.
func TestEachStreamIsConfirmedBeforeItBegins(t *testing.T) {
	var streams atomic.Int32
	f := newFixture(t, Default(), clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			streams.Add(1)
		}
		podsByName(w, r)
	})
	refused := errors.New("another cluster")
	right := true
	f.confirmBy(t, func(context.Context, *rest.Config) error {
		if right {
			return nil
		}
		return refused
	})
	transport, err := HardenStreams(f.connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	logs := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+"/api/v1/pods/there/log", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return errors.Join(err, answer.Body.Close())
	}
	if err := logs(); err != nil || streams.Load() != 1 {
		t.Fatalf("%d streams have begun: %v", streams.Load(), err)
	}
	right = false // The connection of the first stream is not used again.
	if err := logs(); !errors.Is(err, refused) || streams.Load() != 1 {
		t.Errorf("%d streams have begun: %v", streams.Load(), err)
	}
}
