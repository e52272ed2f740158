package hostile

import (
	"net/http"
	"testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/hostile"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// server is a hostile server that passes requests on to c2.
type server struct {
	*hostile.Server
	requests env.Journal
}

// newServer starts a server that behaves.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	var err error
	s.Server, err = hostile.New(c2Source, "127.0.0.1", func(r *http.Request) {
		s.requests.Add(r.Method + " " + r.URL.String())
	})
	env.Must(t, err)
	t.Cleanup(s.Close)
	return s
}
