package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchTime is how long a watch takes to show a change.
const watchTime = 5 * time.Millisecond

// stream is the body of a watch's answer.
type stream struct {
	ctx   context.Context //nolint:containedctx // The request ends with it.
	ended context.CancelFunc
	news  chan struct{} // has room for one
	rest  []byte        // Only the reader uses it.

	mu     sync.Mutex // guards the field below
	events []event
}

// event is a line of a watch's answer, which is shown at a time.
type event struct {
	line []byte
	at   time.Time
}

// stream begins a watch: with the objects that there are, if the request asks for them, and a bookmark after them. The
// caches of the simulation watch once, and from the version of their list on, when nothing has changed since.
func (s *apiServer) stream(q request) io.ReadCloser {
	b := &stream{news: make(chan struct{}, 1)}
	b.ctx, b.ended = context.WithCancel(q.Context())
	kind, wanted, selects := q.kind(), reflect.TypeOf(kept(q.resource)), q.selector()
	initial, from := q.query.Get("sendInitialEvents") == "true", 0
	if !initial {
		from, _ = strconv.Atoi(q.query.Get("resourceVersion"))
	}
	version := 0
	s.watch(func(c change) {
		if c.initial {
			version = c.version
		}
		if b.ctx.Err() != nil || wanted == nil || reflect.TypeOf(c.object()) != wanted {
			return
		}
		if c.before == nil { // It may be older than the watch.
			if since, _ := strconv.Atoi(c.after.GetResourceVersion()); since <= from {
				return
			}
		}
		if what := kindOf(c, selects); what != "" {
			b.add(what, encoded(q.version.WithKind(kind), c.object()), c.at)
		}
	})
	if initial {
		b.add(watch.Bookmark, map[string]any{
			"kind": kind, "apiVersion": q.version.String(), "metadata": map[string]any{
				"resourceVersion": strconv.Itoa(max(version, 1)),
				"annotations":     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			},
		}, time.Now())
	}
	return b
}

// kindOf returns how a watch of some objects shows a change.
func kindOf(c change, selects func(client.Object) bool) watch.EventType {
	was, is := c.before != nil && selects(c.before), c.after != nil && selects(c.after)
	switch {
	case was && is:
		return watch.Modified
	case is:
		return watch.Added
	case was:
		return watch.Deleted
	default:
		return ""
	}
}

func (b *stream) add(what watch.EventType, object any, at time.Time) {
	line, err := json.Marshal(map[string]any{"type": what, "object": object})
	if err != nil {
		panic(fmt.Sprintf("encoding an event: %v", err))
	}
	b.mu.Lock()
	b.events = append(b.events, event{line: append(line, '\n'), at: at.Add(watchTime)})
	b.mu.Unlock()
	notify(b.news)
}

// Read waits for the next event.
func (b *stream) Read(to []byte) (int, error) {
	for len(b.rest) == 0 {
		if next, ok := b.take(); ok {
			if !pause(b.ctx, time.Until(next.at)) {
				return 0, io.EOF
			}
			b.rest = next.line
			break
		}
		select {
		case <-b.news:
		case <-b.ctx.Done():
			return 0, io.EOF
		}
	}
	n := copy(to, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *stream) take() (event, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) == 0 {
		return event{}, false
	}
	next := b.events[0]
	b.events = b.events[1:]
	return next, true
}

// Close ends the watch.
func (b *stream) Close() error {
	b.ended()
	return nil
}
