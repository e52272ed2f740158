package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
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
		return sent(t, fence.Wrap(server.Client().Transport), ctx, method, server.URL+path)
	}
	right, end := context.WithCancel(t.Context())
	if err := send(t.Context(), http.MethodPut, "/"); err != nil {
		t.Errorf("before there is a right to be lost: %v", err)
	}
	fence.Until(&until{ctx: right})
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
	if err := send(Reading(t.Context()), http.MethodPost, "/"); err != nil {
		t.Errorf("a read that is a POST: %v", err)
	}
	if err := send(Deciding(t.Context(), nil), http.MethodPut, "/"); err != nil {
		t.Errorf("a write that decides about the right: %v", err)
	}
}

// sent sends a request with a body.
//
//nolint:revive // The test comes first.
func sent(t *testing.T, to http.RoundTripper, ctx context.Context, method, url string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := to.RoundTrip(request)
	if err == nil {
		err = answer.Body.Close()
	}
	return err
}

// until is a right whose clock shows its end, although no timer has fired.
type until struct {
	ctx  context.Context //nolint:containedctx // as in the product
	over atomic.Bool
}

var errOver = errors.New("over")

func (u *until) Context() context.Context { return u.ctx }

func (u *until) Ended() error {
	if u.over.Load() {
		return errOver
	}
	return nil
}

// answering is a RoundTripper that does something, such as waiting for a connection, and then sends the body.
type answering struct {
	before func()
	again  bool // it sends the body a second time, as over another connection
	got    string
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.before != nil {
		a.before()
	}
	body := r.Body
	if a.again {
		var err error
		if body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	read, err := io.ReadAll(body)
	a.got += string(read)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestAProcessThatWasFrozenSendsNoMoreWrites(t *testing.T) {
	plain := func(ctx context.Context, _ Right) context.Context { return ctx }
	renewal := Deciding
	first := func(ctx context.Context, _ Right) context.Context { return Deciding(ctx, nil) }
	for name, test := range map[string]struct {
		as               func(context.Context, Right) context.Context
		leaseless        bool
		lead, hold, own  bool // whether it is over
		refused          bool
		methodThatPasses string
	}{
		"a write in time":                                 {as: plain},
		"a write when another manager may lead":           {as: plain, lead: true, refused: true},
		"the same in a target without a Lease":            {as: plain, leaseless: true, lead: true, refused: true},
		"a write in a target without a Lease":             {as: plain, leaseless: true},
		"a write when another one may hold the target":    {as: plain, hold: true, refused: true},
		"a renewal in time":                               {as: renewal},
		"a renewal when another manager may lead":         {as: renewal, lead: true, refused: true},
		"a renewal when another one may hold the target":  {as: renewal, own: true, refused: true},
		"a release, after the hold has ended":             {as: renewal, hold: true},
		"the first renewal":                               {as: first, hold: true},
		"the first renewal when another manager may lead": {as: first, lead: true, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			for when, freeze := range map[string]func(*answering, func()){
				"before it is sent":               func(_ *answering, thaw func()) { thaw() },
				"while it waits for a connection": func(to *answering, thaw func()) { to.before = thaw },
				"while it waits for a connection once more": func(to *answering, thaw func()) {
					to.before, to.again = thaw, true
				},
			} {
				var lead, hold, own until
				hold.ctx = t.Context()
				fence := &Fence{Lead: lead.Ended}
				if !test.leaseless {
					fence.Until(&hold)
				}
				to := &answering{}
				freeze(to, func() {
					lead.over.Store(test.lead)
					hold.over.Store(test.hold)
					own.over.Store(test.own)
				})
				err := sent(t, fence.Wrap(to), test.as(t.Context(), own.Ended), http.MethodPatch, "http://c2")
				if errors.Is(err, errOver) != test.refused || (to.got == "") != test.refused {
					t.Errorf("frozen %s: it sent %q, and the error is %v", when, to.got, err)
				}
				if err := sent(t, fence.Wrap(&answering{}), t.Context(), http.MethodGet, "http://c2"); err != nil {
					t.Errorf("frozen %s: a read: %v", when, err)
				}
				read := Reading(t.Context())
				if err := sent(t, fence.Wrap(&answering{}), read, http.MethodPost, "http://c2"); err != nil {
					t.Errorf("frozen %s: a read that is a POST: %v", when, err)
				}
			}
		})
	}
}

// stream is the body of an answer that switches protocols.
type stream struct{ io.ReadWriteCloser }

type switching struct{}

func (switching) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: stream{}}, nil
}

func TestAFenceLetsStreamsBeWritten(t *testing.T) {
	for name, held := range map[string]bool{"without a hold": false, "with a hold": true} {
		fence := &Fence{}
		if held {
			fence.Until(&until{ctx: t.Context()})
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://host/exec", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := fence.Wrap(switching{}).RoundTrip(request) //nolint:bodyclose // It has none.
		if err != nil {
			t.Fatal(err)
		}
		if _, writes := answer.Body.(io.ReadWriteCloser); !writes {
			t.Errorf("%s: the stream cannot be written", name)
		}
	}
}

// An exec begins with a POST by SPDY, and with a GET by WebSocket.
func TestStreamsBeginWithoutTheRightToWrite(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	connection, err := Harden(config, Options{
		Limits: patient(Default()), Account: NewAccount(Default(), clock.RealClock{}),
		Fence: &Fence{Lead: func() error { return errOver }},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	streams, err := HardenStreams(connection.Config())
	if err != nil {
		t.Fatal(err)
	}
	url := server.URL + "/api/v1/namespaces/a/pods/b/exec"
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if err := sent(t, streams, t.Context(), method, url); err != nil {
			t.Errorf("a stream that begins with %s: %v", method, err)
		}
	}
	if err := sent(t, connection.Config().Transport, t.Context(), http.MethodPost, url); !errors.Is(err, errFenced) {
		t.Errorf("a write: %v", err)
	}
}
