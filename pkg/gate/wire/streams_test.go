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

	"k8s.io/apimachinery/pkg/types"
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

func TestStreamsAreCounted(t *testing.T) {
	var s Streams
	var ends []func()
	for _, name := range []string{"a", "b", "c", "d"} {
		target := types.NamespacedName{Name: name}
		for range 100 {
			end, err := s.Begin(target)
			if err != nil {
				t.Fatalf("%d streams are open: %v", s.Open(), err)
			}
			ends = append(ends, end)
		}
		tooMany := (*TooManyError)(nil)
		if _, err := s.Begin(target); !errors.As(err, &tooMany) || *tooMany != (TooManyError{Open: 100}) {
			t.Errorf("another stream to %s: %v", name, err)
		}
	}
	tooMany := (*TooManyError)(nil)
	if _, err := s.Begin(types.NamespacedName{Name: "e"}); !errors.As(err, &tooMany) ||
		*tooMany != (TooManyError{Open: 400, InAll: true}) {
		t.Errorf("another stream: %v", err)
	}
	ends[0]()
	if end, err := s.Begin(types.NamespacedName{Name: "a"}); err != nil {
		t.Errorf("another stream after the end of one: %v", err)
	} else {
		ends[0] = end
	}
	if _, err := s.Begin(types.NamespacedName{Name: "a"}); !errors.As(err, &tooMany) || tooMany.Open != 100 {
		t.Errorf("two streams after the end of one: %v", err)
	}
	for i, end := range ends {
		if end(); s.Open() != 399-i {
			t.Errorf("%d streams are open after the end of %d", s.Open(), i+1)
		}
	}
	if len(s.open) > 0 {
		t.Errorf("targets without streams are kept: %v", s.open)
	}
}

// answers is a RoundTripper whose answers have a status.
type answers int

func (status answers) RoundTrip(*http.Request) (*http.Response, error) {
	body := strings.Repeat("a", 100<<10)
	return &http.Response{
		StatusCode: int(status), ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

func TestWhichAnswersAreStreams(t *testing.T) {
	for status, want := range map[int]int64{ // the length of the answer, or 0 if it is refused
		101: 100 << 10, 200: 100 << 10, 299: 100 << 10, 300: 0, 399: 0, 400: 64 << 10, 500: 64 << 10,
	} {
		answer, err := (&streamGuard{answers(status)}).RoundTrip(&http.Request{})
		if (err == nil) != (want > 0) {
			t.Errorf("%d: %v", status, err)
		}
		if err != nil {
			continue
		}
		n, err := io.Copy(io.Discard, answer.Body)
		if n != want || err != nil || (answer.ContentLength == -1) != (status >= 400) {
			t.Errorf("%d: %d bytes, and said to be %d: %v", status, n, answer.ContentLength, err)
		}
		_ = answer.Body.Close()
	}
}

func TestStreamsOfAnyConfiguration(t *testing.T) {
	if transport, err := HardenStreams(&rest.Config{Host: "https://192.0.2.1"}); transport == nil || err != nil {
		t.Errorf("%v, %v", transport, err)
	}
	unreadable := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "missing"}}
	if _, err := HardenStreams(unreadable); err == nil {
		t.Error("certificates that cannot be read are no error")
	}
}
