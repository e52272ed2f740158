package gate

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// notOffered is the client of subresources, which the source does not use in targets.
type notOffered struct{}

var _ client.SubResourceClient = notOffered{}

// Get returns an error.
func (notOffered) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errNotOffered
}

// Create returns an error.
func (notOffered) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errNotOffered
}

// Update returns an error.
func (notOffered) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errNotOffered
}

// Patch returns an error.
func (notOffered) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return errNotOffered
}

// Apply returns an error.
func (notOffered) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errNotOffered
}
