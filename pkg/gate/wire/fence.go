package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// errFenced says that a write came too late.
var errFenced = errors.New("this source may no longer write there")

// Fence stops writes to a target when the right to write ends. The zero value lets all pass. It is safe for concurrent
// use. Reads and streams are not concerned.
type Fence struct {
	right atomic.Pointer[context.Context]
}

// Until makes all writes from now on end with ctx, those under way, too.
func (f *Fence) Until(ctx context.Context) { f.right.Store(&ctx) }

type unfencedKey struct{}

// Unfenced returns a context whose requests no Fence stops: those that decide who has the right to write.
func Unfenced(ctx context.Context) context.Context {
	return context.WithValue(ctx, unfencedKey{}, true)
}

// fenced is a RoundTripper whose writes stop at a fence.
type fenced struct {
	http.RoundTripper
	*Fence
}

// RoundTrip sends a request, unless it is a write and the right has ended.
func (f fenced) RoundTrip(r *http.Request) (*http.Response, error) {
	right := f.right.Load()
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	if right == nil || reads || r.Context().Value(unfencedKey{}) != nil {
		return f.RoundTripper.RoundTrip(r)
	}
	if (*right).Err() != nil {
		return nil, errors.Join(errFenced, context.Cause(*right))
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(*right, func() { cancel(errFenced) })
	answer, err := f.RoundTripper.RoundTrip(r.Clone(ctx))
	end := func() { stop(); cancel(nil) }
	if err != nil {
		end()
		return nil, err
	}
	answer.Body = &ended{answer.Body, end}
	return answer, nil
}

// ended is a body whose request ends with it.
type ended struct {
	io.ReadCloser
	end func()
}

// Close ends the request.
func (b *ended) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
