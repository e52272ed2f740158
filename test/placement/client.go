package main

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requestTime is how long an API server takes to answer.
const requestTime = 5 * time.Millisecond

// api is a client of a cluster's API server. Reads of kinds that it has a cache of come from there.
type api struct {
	client.Client

	store  *store
	caches caches
}

// live reads from the API server.
type live struct {
	client.Reader

	store *store
}

// Get reads an object.
func (l live) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if !pause(ctx, requestTime) {
		return context.Cause(ctx)
	}
	r := refOf(o)
	r.key = key
	found, err := l.store.get(r)
	if err != nil {
		return err
	}
	assign(o, copyOf(found))
	return nil
}

// Get reads from a cache, or else from the API server.
func (a *api) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if i := a.caches.of(o); i != nil {
		return i.get(key, o)
	}
	return live{store: a.store}.Get(ctx, key, o, options...)
}

// List finds nothing: the simulation has none of the kinds that are listed.
func (*api) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// Create creates an object.
func (a *api) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	return a.write(ctx, o, func() (client.Object, error) { return a.store.create(o) })
}

// Patch applies a merge patch.
func (a *api) Patch(ctx context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	return a.write(ctx, o, func() (client.Object, error) { return a.store.patch(refOf(o), data) })
}

// Delete deletes an object. Delegates end at once.
func (a *api) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	asked := (&client.DeleteOptions{}).ApplyOptions(options)
	return a.write(ctx, nil, func() (client.Object, error) {
		return nil, a.store.remove(refOf(o), asked.Preconditions)
	})
}

// write makes a request, and assigns the answer to o unless there is none.
func (a *api) write(ctx context.Context, o client.Object, request func() (client.Object, error)) error {
	if !pause(ctx, requestTime) {
		return context.Cause(ctx)
	}
	written, err := request()
	if err != nil {
		return err
	}
	if written != nil {
		assign(o, copyOf(written))
	}
	return nil
}

// Status returns a client that patches the status.
func (a *api) Status() client.SubResourceWriter { return statusWriter{api: a} }

type statusWriter struct {
	client.SubResourceWriter

	api *api
}

// Patch patches the status.
func (w statusWriter) Patch(
	ctx context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption,
) error {
	return w.api.Patch(ctx, o, patch)
}
