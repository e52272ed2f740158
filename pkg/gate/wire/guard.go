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
	// answered may be nil.
	answered func(status int, took time.Duration)
	pace     *pace
}

// RoundTrip sends a request, and bounds the answer.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	kind := requestOf(r, g.base)
	if kind.watch {
		if err := g.pace.wait(r.Context(), nameOfWatch(r)); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	within, what := g.within(kind)
	timer := g.clock(kind).AfterFunc(within, func() { cancel(&TimeoutError{what}) })
	end := func() { timer.Stop(); cancel(nil) }
	began := g.account.clock.Now()
	answer, err := g.next.RoundTrip(asksForJSON(r.Clone(ctx)))
	g.report(r, kind, answer, began)
	if err != nil {
		end()
		return nil, causeOf(ctx, err)
	}
	g.account.noteDate(answer.Header.Get("Date"), time.Now()) //nolint:forbidigo // Theirs is real, too.
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

// report reports how a request was answered that began at a time.
func (g *guard) report(r *http.Request, kind request, answer *http.Response, began time.Time) {
	status := 0
	if answer != nil {
		status = answer.StatusCode
	} else if errors.Is(r.Context().Err(), context.Canceled) {
		return
	}
	switch {
	case kind.watch:
		g.pace.note(nameOfWatch(r), status)
	case kind.list == "" && g.answered != nil:
		g.answered(status, g.account.clock.Since(began))
	}
}

// nameOfWatch names what is watched, the same from whatever version on.
func nameOfWatch(r *http.Request) string {
	query := r.URL.Query()
	return r.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector")
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
		b.scanner.list, b.ended = g.account.total(kind)
		b.turn = g.turn
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
