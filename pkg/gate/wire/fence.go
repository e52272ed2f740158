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

// Right says why a right has ended, and nil while it lasts. It looks at a clock: the timers of a process that was
// frozen fire some time after it goes on.
type Right func() error

// Fence stops writes when the right to write ends. It asks when it gets a write, and again whenever the transport reads
// the body to send it: in between, a write may wait for a connection while the process is frozen. The zero value lets
// all writes pass. It is safe for concurrent use. Reads pass at any time. So do the streams of a [Connection], however
// they begin: their transport, which HardenStreams returns, has no fence. Users of the pod write there, not the source.
type Fence struct {
	// Lead is the right to lead, without which no write passes. It may be nil.
	Lead Right

	held atomic.Pointer[RightToAct]
}

// RightToAct is the right to act in a target, which package hold keeps.
type RightToAct interface {
	// Ended is a Right.
	Ended() error
	// Context ends with the right, as soon as somebody notices.
	Context() context.Context
}

// Until makes all writes from now on end with a right, those under way, too.
func (f *Fence) Until(right RightToAct) { f.held.Store(&right) }

type readingKey struct{}

// Reading returns a context for reads that are a POST, such as reviews. They pass like other reads.
func Reading(ctx context.Context) context.Context {
	return context.WithValue(ctx, readingKey{}, true)
}

// reads says whether a request only reads.
func reads(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return r.Context().Value(readingKey{}) != nil
}

type decidingKey struct{}

// Deciding returns a context for writes that decide who has the right to write. They have a right of their own, which
// may be nil, in place of that of Until.
func Deciding(ctx context.Context, own Right) context.Context {
	return context.WithValue(ctx, decidingKey{}, own)
}

// Check returns why a write must not be sent now, and nil if it may be.
func (f *Fence) Check(ctx context.Context) error {
	rights := []Right{f.Lead}
	if own, deciding := ctx.Value(decidingKey{}).(Right); deciding {
		rights = append(rights, own)
	} else if held := f.held.Load(); held != nil {
		rights = append(rights, (*held).Ended, func() error { return context.Cause((*held).Context()) })
	}
	for _, right := range rights {
		if right == nil {
			continue
		}
		if err := right(); err != nil {
			return errors.Join(errFenced, err)
		}
	}
	return nil
}

// Wrap returns a RoundTripper whose writes the fence stops.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper { return fenced{next, f} }

// fenced is a RoundTripper whose writes stop at a fence.
type fenced struct {
	http.RoundTripper
	*Fence
}

// RoundTrip sends a request, unless it is a write and the right has ended.
func (f fenced) RoundTrip(r *http.Request) (*http.Response, error) {
	if reads(r) {
		return f.RoundTripper.RoundTrip(r)
	}
	if err := f.Check(r.Context()); err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	ctx, end := f.during(r.Context())
	answer, err := f.RoundTripper.RoundTrip(f.checked(r.WithContext(ctx)))
	if err != nil {
		end()
		return nil, err
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		context.AfterFunc(r.Context(), end) // It is a stream from now on, which can be written, too.
		return answer, nil
	}
	answer.Body = &ended{answer.Body, end}
	return answer, nil
}

// during returns a context for a write, which ends with the right to act in the target, and what to call at its end.
func (f *Fence) during(ctx context.Context) (context.Context, func()) {
	held := f.held.Load()
	if _, deciding := ctx.Value(decidingKey{}).(Right); deciding || held == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc((*held).Context(), func() { cancel(errFenced) })
	return ctx, func() { stop(); cancel(nil) }
}

// checked makes the transport ask the fence when it reads the body of a write, also if it sends the write again. It
// changes the request.
func (f *Fence) checked(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	check := func() error { return f.Check(r.Context()) }
	r.Body = &sending{r.Body, check}
	if again := r.GetBody; again != nil {
		r.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return &sending{body, check}, nil
		}
	}
	return r
}

// sending is the body of a write. Without the whole body, an API server carries out nothing.
type sending struct {
	io.ReadCloser
	check func() error
}

// Read reads from the body, unless the write must not be sent any more.
func (b *sending) Read(p []byte) (int, error) {
	if err := b.check(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
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
