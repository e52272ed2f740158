package wire

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// StreamsPerTarget and StreamsInAll bound the streams that are open at the same time.
const (
	StreamsPerTarget = 100
	StreamsInAll     = 400
)

// Streams counts the streams that are open. The zero value is ready for use, and safe for concurrent use.
type Streams struct {
	mu   sync.Mutex // guards open and all
	open map[types.NamespacedName]int
	all  int
}

// TooManyError means that no stream can be opened now.
type TooManyError struct {
	// Open is the number of streams: to the target, or to all targets.
	Open int
	// InAll says that Open counts the streams to all targets.
	InAll bool
}

// Error says how many streams are open.
func (e *TooManyError) Error() string {
	if e.InAll {
		return fmt.Sprintf("%d streams to all clusters are open", e.Open)
	}
	return fmt.Sprintf("%d streams to the cluster are open", e.Open)
}

// Begin counts a stream to a target until end is called, once. It returns a *TooManyError if there are too many.
func (s *Streams) Begin(target types.NamespacedName) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[target] >= StreamsPerTarget {
		return nil, &TooManyError{Open: s.open[target]}
	}
	if s.all >= StreamsInAll {
		return nil, &TooManyError{Open: s.all, InAll: true}
	}
	if s.open == nil {
		s.open = map[types.NamespacedName]int{}
	}
	s.open[target]++
	s.all++
	return func() { s.end(target) }, nil
}

// Open returns the number of streams that are open.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func (s *Streams) end(target types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.open[target]--; s.open[target] == 0 {
		delete(s.open, target)
	}
}

// HardenStreams returns the transport for logs and exec to the target of a configuration, which is that of a
// Connection or any other. It refuses redirects and cuts the bodies of errors. It never ends a stream, however long it
// lasts, rests or is. It uses HTTP/1.1, which upgrades need.
func HardenStreams(config *rest.Config) (http.RoundTripper, error) {
	if r, ok := config.Transport.(*roads); ok {
		return r.toStreams, nil
	}
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	config.DisableCompression = true
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a transport: %w", err)
	}
	return &streamGuard{transport}, nil
}

type streamGuard struct{ next http.RoundTripper }

// RoundTrip sends a request, and bounds the answer unless it is a stream.
func (g *streamGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch code := answer.StatusCode; {
	case code >= 300 && code < 400:
		return nil, errors.Join(refusal(answer), answer.Body.Close())
	case code >= http.StatusBadRequest:
		answer.Body = &cut{
			Reader: io.LimitReader(answer.Body, Default().ErrorBody), body: answer.Body, end: func() {},
		}
		answer.ContentLength = -1
		answer.Header.Del("Content-Length")
	}
	return answer, nil
}
