package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
)

// guard is the innermost RoundTripper of the requests of a target, except those of streams.
type guard struct {
	next    http.RoundTripper
	base    string // of the paths of the API server
	limits  *Limits
	account *Account
	turn    *Turn
	confirm func(ctx context.Context) error
}

// RoundTrip sends a request, and bounds the answer.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	kind := requestOf(r, g.base)
	ctx, cancel := context.WithCancelCause(r.Context())
	within, what := g.within(kind)
	timer := g.clock(kind).AfterFunc(within, func() { cancel(&TimeoutError{what}) })
	end := func() { timer.Stop(); cancel(nil) }
	answer, err := g.next.RoundTrip(asksForJSON(r.Clone(ctx)))
	if err != nil {
		end()
		return nil, causeOf(ctx, err)
	}
	err = refusal(answer)
	if err == nil {
		err = g.confirmed(ctx, kind, answer)
	}
	if err != nil {
		end()
		return nil, errors.Join(err, answer.Body.Close())
	}
	if answer.StatusCode >= http.StatusBadRequest {
		answer.Body = &cut{Reader: io.LimitReader(answer.Body, g.limits.ErrorBody), body: answer.Body, end: end}
		return answer, nil
	}
	answer.Body = g.bound(ctx, answer.Body, kind, cancel, timer)
	return answer, nil
}

// within returns the time for a whole request, or for the beginning of a watch.
func (g *guard) within(kind request) (time.Duration, string) {
	if kind.watch || kind.list != "" {
		return g.limits.Relist, "a list"
	}
	return g.limits.Request, "an answer"
}

// clock returns the clock for the deadline of a request. Watches use that of the account. Other deadlines are those of
// the connection, which has real time only.
func (g *guard) clock(kind request) clock.WithDelayedExecution {
	if kind.watch {
		return g.account.clock
	}
	return clock.RealClock{}
}

func (g *guard) bound(
	ctx context.Context,
	source io.ReadCloser,
	kind request,
	cancel context.CancelCauseFunc,
	timer clock.Timer,
) io.ReadCloser {
	b := &body{
		source:  source,
		ctx:     ctx,
		cancel:  cancel,
		timer:   timer,
		account: g.account,
		scanner: scanner{limits: g.limits, watched: kind.watch},
		left:    g.limits.Frame,
	}
	switch {
	case kind.list != "":
		b.scanner.list, b.turn = g.account.total(kind), g.turn
	case kind.initial:
		b.scanner.list = &total{}
	case kind.watch:
		timer.Stop() // The watch has begun.
	}
	return b
}

// asksForJSON changes the request to one for JSON.
func asksForJSON(r *http.Request) *http.Request {
	accept := r.Header.Get("Accept")
	for _, other := range []string{
		runtime.ContentTypeProtobuf, runtime.ContentTypeCBORSequence, runtime.ContentTypeCBOR,
	} {
		accept = strings.ReplaceAll(accept, other, runtime.ContentTypeJSON)
	}
	if accept == "" {
		accept = runtime.ContentTypeJSON
	}
	r.Header.Set("Accept", accept)
	return r
}

// refusal returns an error for an answer that is read by nobody.
func refusal(answer *http.Response) error {
	switch code := answer.StatusCode; {
	case code >= 300 && code < 400:
		return &AnswerError{"it answers with a redirect, which is not followed; put the address of the API server " +
			"itself into the kubeconfig"}
	case code < 200:
		return &AnswerError{fmt.Sprintf("it answers with the unexpected status %d", code)}
	case code >= http.StatusBadRequest, code == http.StatusNoContent, answer.ContentLength == 0:
		return nil
	}
	media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || media != runtime.ContentTypeJSON {
		return &AnswerError{fmt.Sprintf("it answers with the content type %q, and not as an API server, with JSON",
			Shorten(answer.Header.Get("Content-Type"), 64))}
	}
	return nil
}

// causeOf returns the reason why ctx ended, if this package ended it, and err otherwise.
func causeOf(ctx context.Context, err error) error {
	if timeout := (*TimeoutError)(nil); errors.As(context.Cause(ctx), &timeout) {
		return timeout
	}
	return err
}

// cut is the beginning of a body.
type cut struct {
	io.Reader

	body io.Closer
	end  func()
}

// Close closes the whole body.
func (c *cut) Close() error {
	c.end()
	return c.body.Close()
}
