package main

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// traffic is the requests of one verb for one resource, and the bytes of their bodies.
type traffic struct {
	Requests int   `json:"requests"`
	Sent     int64 `json:"sent"`     // by the manager
	Received int64 `json:"received"` // by the manager
}

func (t traffic) plus(o traffic) traffic {
	return traffic{t.Requests + o.Requests, t.Sent + o.Sent, t.Received + o.Received}
}

func (t traffic) minus(o traffic) traffic { return t.plus(traffic{-o.Requests, -o.Sent, -o.Received}) }

// state summarizes the requests to the simulated targets.
type state struct {
	// Watches is the number of open watches, by resource.
	Watches map[string]int `json:"watches"`
	// Traffic is by verb and resource, as in "patch podchaperons".
	Traffic map[string]traffic `json:"traffic"`
	// Objects is the number of objects in all targets, by resource.
	Objects map[string]int `json:"objects"`
	// Unexpected requests are not simulated, and were answered with an error.
	Unexpected []string `json:"unexpected"`
}

// since returns the number of requests since an earlier state: all, and by verb and resource.
func (s state) since(before state) (all int, kinds map[string]int) {
	kinds = map[string]int{}
	for what, t := range s.Traffic {
		if n := t.Requests - before.Traffic[what].Requests; n > 0 {
			kinds[what] = n
			all += n
		}
	}
	return all, kinds
}

// writes is the number of requests that wrote what the manager has to write. It leaves out those that the manager sends
// as long as it runs: who it is, and that it is there.
func (s state) writes() int {
	n := 0
	for what, t := range s.Traffic {
		verb, resource, _ := strings.Cut(what, " ")
		switch {
		case resource == "selfsubjectreviews", resource == "leases":
		case verb == "create", verb == "update", verb == "patch", verb == "delete":
			n += t.Requests
		}
	}
	return n
}

// about returns the requests for a resource, to all targets.
func (s state) about(resource string) traffic {
	sum := traffic{}
	for what, t := range s.Traffic {
		if strings.HasSuffix(what, " "+resource) {
			sum = sum.plus(t)
		}
	}
	return sum
}

// log collects the state of all targets. It is safe for concurrent use.
type log struct {
	stores []*store

	mu    sync.Mutex // guards state
	state state
}

func newLog() *log {
	return &log{state: state{Watches: map[string]int{}, Traffic: map[string]traffic{}}}
}

func (l *log) watching(resource string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Watches[resource] += n
}

func (l *log) unexpected(r *http.Request) {
	const most = 20
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.state.Unexpected) < most {
		l.state.Unexpected = append(l.state.Unexpected, r.Method+" "+r.URL.String())
	}
}

// ServeHTTP answers with the state.
func (l *log) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	objects := map[string]int{}
	for _, s := range l.stores {
		s.count(objects)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Objects = objects
	answer(w, l.state)
}

// counted counts the request, and the bytes of its bodies while they are read and written.
func (l *log) counted(info *request.RequestInfo, w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	what := info.Verb + " " + info.Resource
	if !info.IsResourceRequest {
		what = info.Verb + " " + r.URL.Path
	}
	l.add(what, traffic{Requests: 1})
	r.Body = counter{ReadCloser: r.Body, add: func(n int) { l.add(what, traffic{Sent: int64(n)}) }}
	return counter{ResponseWriter: w, add: func(n int) { l.add(what, traffic{Received: int64(n)}) }}
}

func (l *log) add(what string, more traffic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Traffic[what] = l.state.Traffic[what].plus(more)
}

// counter passes the bytes of a body on, and counts them.
type counter struct {
	io.ReadCloser
	http.ResponseWriter
	add func(int)
}

func (c counter) Read(to []byte) (int, error) {
	n, err := c.ReadCloser.Read(to)
	c.add(n)
	return n, err
}

func (c counter) Write(data []byte) (int, error) {
	n, err := c.ResponseWriter.Write(data)
	c.add(n)
	return n, err
}

// Unwrap lets http.ResponseController flush.
func (c counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
