package gate

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errNotOffered = errors.New("the gate does not offer this request")

// Client returns a client that writes only to namespaces that the target may have objects of. If it creates a
// PodChaperon, the answer must pass the gate. Reads go to reads, which must have passed the gate: a cache
// with the gate's informers, or the gate's Reader.
func (g *Gate) Client(reads client.Reader, writes client.Client) client.Client {
	return &gatedClient{Client: writes, gate: g, reads: reads}
}

type gatedClient struct {
	client.Client

	gate  *Gate
	reads client.Reader
}

// Get reads behind the gate.
func (c *gatedClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.reads.Get(ctx, key, o, opts...)
}

// List reads behind the gate.
func (c *gatedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reads.List(ctx, list, opts...)
}

// Create creates an object. It returns a *ForgedError if the target answers with another PodChaperon.
func (c *gatedClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := c.gate.checkNamespace(o); err != nil {
		return err
	}
	if kindOf(o) != kindPodChaperon {
		return c.Client.Create(ctx, o, opts...)
	}
	key := client.ObjectKeyFromObject(o)
	if err := c.Client.Create(ctx, o, opts...); err != nil {
		return err
	}
	if client.ObjectKeyFromObject(o) != key {
		return c.gate.forged(o, "the target was asked to create %q", key)
	}
	return c.gate.Accept(ctx, o)
}

// Update updates an object.
func (c *gatedClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if err := c.gate.checkNamespace(o); err != nil {
		return err
	}
	return c.Client.Update(ctx, o, opts...)
}

// Patch patches an object.
func (c *gatedClient) Patch(
	ctx context.Context,
	o client.Object,
	patch client.Patch,
	opts ...client.PatchOption,
) error {
	if err := c.gate.checkNamespace(o); err != nil {
		return err
	}
	return c.Client.Patch(ctx, o, patch, opts...)
}

// Delete deletes an object.
func (c *gatedClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := c.gate.checkNamespace(o); err != nil {
		return err
	}
	return c.Client.Delete(ctx, o, opts...)
}

// DeleteAllOf is not offered: it deletes objects that nobody has checked.
func (c *gatedClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errNotOffered
}

// Apply is not offered.
func (c *gatedClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errNotOffered
}

// Status is not offered: it writes nothing.
func (c *gatedClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource is not offered: it reads and writes nothing.
func (c *gatedClient) SubResource(string) client.SubResourceClient { return notOffered{} }
