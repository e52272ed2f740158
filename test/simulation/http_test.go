package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// door is where a process reaches the API server of a cluster by HTTP. Parts of the product that make their own clients
// get it in a rest.Config. Each request waits in the simulation, as those of link do.
type door struct {
	process *process
	to      *httpServer
	// right is the right to write, which may end.
	right context.Context //nolint:containedctx // as in the product
}

// config returns a configuration that leads through a door.
func (d *door) config() *rest.Config {
	return &rest.Config{
		Host: "http://" + d.to.name, Transport: d, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
	}
}

// RoundTrip makes a request and waits for its answer.
func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	q, err := readRequest(r)
	if err != nil {
		return nil, err
	}
	if fixed := d.to.answerFixed(q); fixed != nil {
		return fixed, nil
	}
	if q.writes() && d.right != nil && d.right.Err() != nil {
		return nil, errFenced
	}
	q.by = d.process
	var answer *http.Response
	c := &call{
		label: fmt.Sprintf("%s: %s %s %s in %s", d.process.name, q.verb, q.resource, q.name, d.to.name),
		verb:  q.verb, about: q.about(), by: d.process, to: d.to.cluster, ctx: r.Context(),
		answer: make(chan struct{}),
	}
	c.run = func() (client.Object, error) {
		var err error
		answer, err = d.to.serve(q) //nolint:bodyclose // It goes to the caller.
		return nil, err
	}
	d.process.world.park(c)
	select {
	case <-c.answer:
		return q.answered(answer, c.err)
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	case <-d.process.ctx.Done():
		return nil, context.Cause(d.process.ctx)
	}
}

// httpRequest is a request to an API server.
type httpRequest struct {
	verb, resource, name string
	query                url.Values
	// metadata says that the answer has the metadata of objects only.
	metadata bool
	body     []byte
	patch    types.PatchType
	ctx      context.Context //nolint:containedctx // A watch ends with it.
	by       *process
}

func readRequest(r *http.Request) (*httpRequest, error) {
	q := &httpRequest{
		query: r.URL.Query(), metadata: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"),
		patch: types.PatchType(r.Header.Get("Content-Type")), ctx: r.Context(),
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	skipped := 2 // api/v1
	if path[0] == "apis" {
		skipped = 3
	}
	path = path[skipped:]
	if path[0] == "namespaces" && len(path) > 2 {
		path = path[2:]
	}
	q.resource = path[0]
	if len(path) > 1 {
		q.name = path[1]
	}
	q.verb = verbOf(r.Method, q)
	if r.Body == nil {
		return q, nil
	}
	var err error
	if q.body, err = io.ReadAll(r.Body); err == nil && q.verb == "create" {
		made := metav1.PartialObjectMetadata{}
		err = json.Unmarshal(q.body, &made)
		q.name = made.Name + made.GenerateName
	}
	return q, err
}

func verbOf(method string, q *httpRequest) string {
	switch {
	case method == http.MethodPost:
		return "create"
	case method == http.MethodPut:
		return "update"
	case method == http.MethodPatch:
		return patchVerb
	case method == http.MethodDelete:
		return "delete"
	case q.query.Get("watch") != "":
		return "watch"
	case q.name == "":
		return "list"
	default:
		return "get"
	}
}

func (q *httpRequest) writes() bool {
	switch q.verb {
	case "get", "list", "watch":
		return false
	default:
		return true
	}
}

func (q *httpRequest) selector() labels.Selector {
	selector, err := labels.Parse(q.query.Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	return selector
}

// answered returns the answer of a server, or the error of a connection.
func (*httpRequest) answered(answer *http.Response, err error) (*http.Response, error) {
	if err == nil {
		return answer, nil
	}
	if answer != nil {
		_ = answer.Body.Close()
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		said := status.Status()
		said.Kind, said.APIVersion = "Status", "v1"
		return respond(int(said.Code), said), nil
	}
	return nil, err
}

func respond(code int, content any) *http.Response {
	encoded, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return response(code, io.NopCloser(bytes.NewReader(encoded)))
}

func response(code int, body io.ReadCloser) *http.Response {
	header := http.Header{"Content-Type": {runtime.ContentTypeJSON}}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), ProtoMajor: 1, Header: header, Body: body}
}

// watchBody is the body of a watch's answer. Events come one by one.
type watchBody struct {
	ctx    context.Context //nolint:containedctx // The request ends with it.
	ended  context.CancelFunc
	events chan []byte
	rest   []byte
}

func newWatchBody(ctx context.Context) *watchBody {
	b := &watchBody{events: make(chan []byte, 16)}
	b.ctx, b.ended = context.WithCancel(ctx)
	return b
}

// Read waits for the next event.
func (b *watchBody) Read(to []byte) (int, error) {
	if len(b.rest) == 0 {
		select {
		case event, more := <-b.events:
			if !more {
				return 0, io.EOF
			}
			b.rest = event
		case <-b.ctx.Done():
			return 0, context.Cause(b.ctx)
		}
	}
	n := copy(to, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close ends the watch.
func (b *watchBody) Close() error {
	b.ended()
	return nil
}
