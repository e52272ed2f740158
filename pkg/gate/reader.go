package gate

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader returns a reader of objects that pass the gate. live asks the target's API server. Get returns a *ForgedError
// for an object that does not pass. Lists leave such objects out. Orphans do not pass.
func (g *Gate) Reader(live client.Reader) client.Reader { return &reader{g, live} }

type reader struct {
	gate *Gate
	live client.Reader
}

// Get reads an object that passes.
func (r *reader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if err := r.live.Get(ctx, key, o, options...); err != nil {
		return err
	}
	if o.GetName() != key.Name || o.GetNamespace() != key.Namespace {
		return r.gate.forged(o, "the target was asked for %q", key)
	}
	return r.gate.Accept(ctx, o)
}

// List lists the objects that pass.
func (r *reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := r.live.List(ctx, list, options...); err != nil {
		return err
	}
	kind := list.GetObjectKind().GroupVersionKind()
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	return filterItems(list, func(o client.Object) client.Object {
		if metadata, ok := o.(*metav1.PartialObjectMetadata); ok {
			metadata.SetGroupVersionKind(kind) // as the caller asked, whatever the target says
		}
		if r.gate.Accept(ctx, o) != nil {
			return nil
		}
		return o
	})
}
