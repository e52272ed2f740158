package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
)

// call is a request that is under way. The caller waits until the simulation answers it, or until its deadline.
type call struct {
	label string
	verb  string
	// about is the object that the request names, if it went by HTTP.
	about ref
	by    *process
	to    *cluster
	// over is the connection, or nil for the only one.
	over *link
	ctx  context.Context //nolint:containedctx // The call ends with it.
	run  func() (client.Object, error)
	// served says that the request was carried out, with this result.
	served bool
	result client.Object
	err    error
	answer chan struct{}
	// givenUp is since when nobody waits for the call.
	givenUp time.Time
}

// serve carries the request out.
func (c *call) serve() {
	if !c.served {
		c.served = true
		c.by.world.overtake(c)
		c.result, c.err = c.run()
	}
}

// errFenced is the error of a write by a source's process that has lost the right to lead.
var errFenced = errors.New("the fence stops the write")

const patchVerb = "patch"

// link is a connection of a process to an API server. It is a client.Client whose reads come from caches.
type link struct {
	client.Client

	process *process
	to      *cluster
	caches  caches
	// right is the right to write, or nil if it does not end.
	right context.Context //nolint:containedctx // as in the product
}

// do makes a request and waits for its answer.
func (l *link) do(
	ctx context.Context, verb string, o client.Object, key client.ObjectKey, run func() (client.Object, error),
) (client.Object, error) {
	c := &call{
		label: l.process.name + ": " + verb + " " + kindOf(o) + " " + key.Name + " in " + l.to.name,
		verb:  verb, by: l.process, to: l.to, over: l, ctx: ctx, run: run, answer: make(chan struct{}),
	}
	switch {
	case ctx.Value(forLost{}) != nil && verb != "get":
		l.process.world.violate("%s, for a target that is lost", c.label)
	case verb != "get" && (l.process.fenced || l.right != nil && l.right.Err() != nil):
		return nil, errFenced
	}
	l.process.world.park(c)
	select {
	case <-c.answer:
		return c.result, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.process.ctx.Done():
		return nil, context.Cause(l.process.ctx)
	}
}

// Get reads from a cache.
func (l *link) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return l.caches.get(key, o)
}

// List reads from a cache.
func (l *link) List(_ context.Context, to client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	return l.caches.list(to, func(o client.Object) bool { return indexed(asked.FieldSelector, o) })
}

// indexed says whether an object has the value of the index that is asked for.
func indexed(asked fields.Selector, o client.Object) bool {
	if asked == nil {
		return true
	}
	if value, ok := asked.RequiresExactMatch(engage.IndexParent); ok {
		return gate.ParentOf(o).Key.String() == value
	}
	value, _ := asked.RequiresExactMatch(podcache.IndexNode)
	return nodeOf(o) == value
}

// Create creates an object.
func (l *link) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	wanted := copyOf(o)
	created, err := l.do(ctx, "create", o, client.ObjectKeyFromObject(o), func() (client.Object, error) {
		return l.to.create(wanted)
	})
	if err != nil {
		return err
	}
	return assign(o, created)
}

// Delete deletes an object.
func (l *link) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	asked := (&client.DeleteOptions{}).ApplyOptions(options)
	r := refOf(o)
	_, err := l.do(ctx, "delete", o, r.NamespacedName, func() (client.Object, error) {
		return nil, l.to.delete(r, asked)
	})
	return err
}

// Patch patches an object.
func (l *link) Patch(ctx context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return l.patch(ctx, o, patch, false)
}

func (l *link) patch(ctx context.Context, o client.Object, patch client.Patch, status bool) error {
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	r := refOf(o)
	verb := patchVerb
	if status {
		verb = "patch the status of"
	}
	patched, err := l.do(ctx, verb, o, r.NamespacedName, func() (client.Object, error) {
		return l.to.patch(r, status, patch.Type(), data)
	})
	if err != nil {
		l.process.world.noteFailed(r.Name)
		return err
	}
	return assign(o, patched)
}

// Status returns a client that patches the status.
func (l *link) Status() client.SubResourceWriter { return statusWriter{link: l} }

type statusWriter struct {
	client.SubResourceWriter

	link *link
}

// Patch patches the status.
func (s statusWriter) Patch(
	ctx context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption,
) error {
	return s.link.patch(ctx, o, patch, true)
}

// bind binds a proxy to a node, as kube-scheduler's default binder does.
func (l *link) bind(ctx context.Context, pod client.Object, node string) error {
	r, uid := refOf(pod), pod.GetUID()
	_, err := l.do(ctx, "bind to "+node, pod, r.NamespacedName, func() (client.Object, error) {
		return nil, l.to.bind(r, uid, node)
	})
	return err
}

// live reads from the API server.
type live struct {
	client.Reader

	link *link
}

// Get reads an object.
func (l live) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	r := ref{kindOf(o), key}
	found, err := l.link.do(ctx, "get", o, key, func() (client.Object, error) { return l.link.to.get(r) })
	if err != nil {
		return err
	}
	return assign(o, found)
}

// fault is what becomes of a request that is not answered well.
type fault int

const (
	// refusedConnection is a request that did not arrive. brokenConnection is one that was carried out, and its answer
	// was lost. serverError is a request that was not carried out, busy one that the server puts off.
	refusedConnection fault = iota
	brokenConnection
	serverError
	busy
	faults
)

func (f fault) String() string {
	return [...]string{
		"does not arrive", "is carried out, and its answer is lost", "fails on the server", "is put off by the server",
	}[f]
}

// fail answers a request with a fault.
func (c *call) fail(f fault) {
	switch f {
	case brokenConnection:
		c.serve()
		c.err = fmt.Errorf("%s: unexpected EOF", c.label)
	case serverError:
		c.err = apierrors.NewInternalError(fmt.Errorf("%s: etcdserver: request timed out", c.label))
	case busy:
		c.err = apierrors.NewTooManyRequests("busy", 1)
	default:
		c.err = fmt.Errorf("%s: connection refused", c.label)
	}
	c.result, c.served = nil, true
}

func nodeOf(o client.Object) string {
	if pod := asPod(o); pod != nil && strings.HasPrefix(pod.Spec.NodeName, nodePrefix) {
		return pod.Spec.NodeName
	}
	return ""
}
