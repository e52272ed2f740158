package simulation

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stream is a watch by HTTP. It gets changes in their order, one by one, when the simulation says so.
type stream struct {
	name     string
	by       *process
	from     *httpServer
	request  *httpRequest
	selector labels.Selector
	kind     string
	seen     int // of the changes
	body     *watchBody
}

func matches(selector labels.Selector, o client.Object) bool {
	return o != nil && selector.Matches(labels.Set(o.GetLabels()))
}

// begin sends the objects that there are, to a reflector that lists by watching.
func (q *httpRequest) begin(body *watchBody, objects []client.Object, version int) {
	if q.query.Get("sendInitialEvents") != "true" {
		return
	}
	var all []byte
	for _, o := range objects {
		all = append(all, watchEvent(string(watch.Added), q.encoded(o))...)
	}
	body.events <- append(all, watchEvent(string(watch.Bookmark), q.bookmark(version))...)
}

// watch begins a watch.
func (s *httpServer) watch(q *httpRequest) (*http.Response, error) {
	version := s.version
	if initial := q.query.Get("sendInitialEvents") == "true"; !initial {
		var err error
		if version, err = strconv.Atoi(q.query.Get("resourceVersion")); err != nil {
			return nil, err
		}
	}
	w := &stream{
		name: fmt.Sprintf("%s's watch of %s in %s", q.by.name, q.resource, s.name),
		by:   q.by, from: s, request: q, selector: q.selector(), kind: kindOf(changing(q.resource)),
		body: newWatchBody(q.ctx),
	}
	if version > s.version {
		return nil, apierrors.NewResourceExpired("the version is of the future")
	}
	for _, change := range s.logs[w.kind] {
		if change.version <= version {
			w.seen++
		}
	}
	q.begin(w.body, s.selected(q), version)
	s.streams = append(s.streams, w)
	return response(http.StatusOK, w.body), nil
}

func (w *stream) ended() bool { return w.body.ctx.Err() != nil || !w.by.alive() }

// behind skips changes that the watch does not show, and says whether there is another one.
func (w *stream) behind() bool {
	log := w.from.logs[w.kind]
	for w.seen < len(log) && !matches(w.selector, log[w.seen].before) && !matches(w.selector, log[w.seen].after) {
		w.seen++
	}
	return w.seen < len(log)
}

// next sends the next change.
func (w *stream) next() {
	now := w.from.logs[w.kind][w.seen]
	w.seen++
	was, is := matches(w.selector, now.before), matches(w.selector, now.after)
	kind, o := watch.Modified, now.after
	switch {
	case !is:
		kind, o = watch.Deleted, withVersion(now.before, now.version)
	case !was:
		kind = watch.Added
	}
	w.body.events <- watchEvent(string(kind), w.request.encoded(o))
}

// end ends the watch. If it is expired, the reflector has to list.
func (w *stream) end(expired bool) {
	if expired {
		status := apierrors.NewResourceExpired("too old").Status()
		status.Kind, status.APIVersion = "Status", "v1"
		w.body.events <- watchEvent(string(watch.Error), status)
	}
	close(w.body.events)
	w.from.streams = slices.DeleteFunc(w.from.streams, func(other *stream) bool { return other == w })
}

// open returns the watches that have not ended, in order.
func (s *httpServer) open() []*stream {
	s.streams = slices.DeleteFunc(s.streams, (*stream).ended)
	slices.SortStableFunc(s.streams, func(a, b *stream) int { return compareNames(a.name, b.name) })
	return s.streams
}
