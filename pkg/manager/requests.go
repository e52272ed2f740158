package manager

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// The webhooks' port answers everybody. So a request has little time to arrive, and large ones are few at a time.
const (
	// arriveWithin is an API server's default patience with a webhook.
	arriveWithin = 10 * time.Second
	// smallRequest is the length, in bytes, up to which a request needs no room. A pod has a tenth of it.
	smallRequest = 128 << 10
	// largestRequest is more than an API server sends: the object, and the one before, of 3 MB each.
	largestRequest = 7 << 20
	// roomForLarge is the length of what goes beyond smallRequest in all requests that are answered at a time.
	roomForLarge = 8 * largestRequest
)

// boundedServer is a webhook server whose handlers get requests that have arrived, of bounded lengths.
type boundedServer struct {
	webhook.Server

	within time.Duration
	room   *semaphore.Weighted
}

// newBoundedServer returns a server whose requests have some time to arrive.
func newBoundedServer(within time.Duration, o webhook.Options) boundedServer {
	s := boundedServer{Server: webhook.NewServer(o), within: within, room: semaphore.NewWeighted(roomForLarge)}
	s.Register("/", http.NotFoundHandler()) // Requests to other paths have bodies, too.
	return s
}

// Register has a handler serve a path.
func (s boundedServer) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, leave, refused := s.receive(w, r)
		defer leave()
		if refused != nil {
			log.Log.WithName("webhook").V(1).Info("A request was refused", "from", r.RemoteAddr, "reason", refused.why)
			http.Error(w, refused.why, refused.status)
			return
		}
		r.Body = io.NopCloser(body)
		handler.ServeHTTP(w, r)
	}))
}

// refusal is the answer to a request that the handlers do not get.
type refusal struct {
	status int
	why    string
}

// receive reads the body of a request. leave gives its room to others.
func (s boundedServer) receive(w http.ResponseWriter, r *http.Request) (body io.Reader, leave func(), no *refusal) {
	var taken int64
	leave = func() { s.room.Release(taken) }
	deadline := time.Now().Add(s.within) //nolint:forbidigo // Connections have the system's clock.
	controller := http.NewResponseController(w)
	if err := controller.SetReadDeadline(deadline); err != nil {
		return nil, leave, &refusal{http.StatusInternalServerError, err.Error()}
	}
	switch {
	case r.ContentLength < 0:
		return nil, leave, &refusal{http.StatusLengthRequired, "the request does not say its length"}
	case r.ContentLength > largestRequest:
		return nil, leave, &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf(
			"the request has %d bytes; at most %d are read", r.ContentLength, largestRequest)}
	}
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	defer cancel()
	read := &bytes.Buffer{}
	for left := r.ContentLength; left > 0; left = r.ContentLength - int64(read.Len()) {
		part := min(left, smallRequest)
		if read.Len() > 0 { // Whoever sends nothing takes no room.
			if s.room.Acquire(ctx, part) != nil {
				const why = "there are too many large requests at a time"
				return nil, leave, &refusal{http.StatusServiceUnavailable, why}
			}
			taken += part
		}
		if _, err := io.CopyN(read, r.Body, part); err != nil {
			return nil, leave, &refusal{http.StatusRequestTimeout, fmt.Sprintf(
				"the request did not arrive within %s: %v", s.within, err)}
		}
	}
	// Handlers may take longer. What else arrives ends the request of HTTP/1.1.
	_ = controller.SetReadDeadline(time.Time{})
	return read, leave, nil
}
