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
	// largeRequest is the length, in bytes, from which a request needs room. A pod has a tenth of it.
	largeRequest = 128 << 10
	// largestRequest is more than an API server sends: the object, and the one before, of 3 MB each.
	largestRequest = 7 << 20
	// roomForLarge is the length of all large requests that are answered at a time.
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
	return boundedServer{Server: webhook.NewServer(o), within: within, room: semaphore.NewWeighted(roomForLarge)}
}

// Register has a handler serve a path.
func (s boundedServer) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, why := s.receive(w, r); status != http.StatusOK {
			log.Log.WithName("webhook").V(1).Info("A request was refused", "from", r.RemoteAddr, "reason", why)
			http.Error(w, why, status)
			return
		}
		defer s.leave(r)
		handler.ServeHTTP(w, r)
	}))
}

// receive reads the request, which must then leave. If it is refused, it returns another status than OK, and why.
func (s boundedServer) receive(w http.ResponseWriter, r *http.Request) (status int, why string) {
	if r.ContentLength < 0 {
		return http.StatusLengthRequired, "the request does not say its length"
	}
	if r.ContentLength > largestRequest {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has %d bytes; at most %d are read",
			r.ContentLength, largestRequest)
	}
	deadline := time.Now().Add(s.within) //nolint:forbidigo // Connections have the system's clock.
	if err := http.NewResponseController(w).SetReadDeadline(deadline); err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	if r.ContentLength >= largeRequest {
		ctx, cancel := context.WithDeadline(r.Context(), deadline)
		defer cancel()
		if s.room.Acquire(ctx, r.ContentLength) != nil {
			return http.StatusServiceUnavailable, "there are too many large requests at a time"
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.leave(r)
		return http.StatusRequestTimeout, fmt.Sprintf("the request did not arrive within %s: %v", s.within, err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return http.StatusOK, ""
}

// leave gives the room of a request to others.
func (s boundedServer) leave(r *http.Request) {
	if r.ContentLength >= largeRequest {
		s.room.Release(r.ContentLength)
	}
}
