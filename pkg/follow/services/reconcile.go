package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
)

// reconcileService creates, updates or deletes the copies of a Service, and returns the time until the next decision.
func (c *copier) reconcileService(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	from, known := c.follower.originals.service(key)
	if !known {
		return 0, nil // The item is enqueued once the original is known.
	}
	e, err := c.listedExisting(ctx, key.Namespace)
	if err != nil {
		return 0, err
	}
	v := c.decisionOf(key, from, e)
	c.setIdle(key, v.idle)
	switch {
	case v.follow:
		if e, err = c.ensureExisting(ctx, key.Namespace); err == nil {
			err = c.copyService(ctx, key, from, e)
		}
	case e != nil:
		err = c.removeService(ctx, key, from, e)
	}
	// The watch will show a copy that was created a moment ago.
	whole := err == nil || errors.Is(err, errRelaxed)
	if copied := v.follow && e != nil && e.service(key) != nil; whole || !copied {
		c.noteCopied(key, copied)
	}
	c.noteEnsured(key, v.follow && whole)
	return v.wait, err
}

// decisionOf decides about a Service. A copy counts if it was made for this target; without e, none does.
func (c *copier) decisionOf(key types.NamespacedName, from original, e *existing) decision {
	var there *corev1.Service
	if e != nil {
		there = e.service(key)
	}
	c.mu.Lock()
	idle, holds := c.idle[key], len(c.chaperons[key.Namespace]) > 0
	_, awaited := c.expected[key]
	c.mu.Unlock()
	return decide(standing{
		original: from,
		proxied:  holds && from.electing(c.follower.originals.isVirtual), // Without delegates, proxied does not matter.
		holds:    holds,
		copied:   there != nil && c.mine(there),
		awaited:  awaited,
		idle:     idle,
		now:      c.follower.options.Clock.Now(),
	})
}

func (c *copier) setIdle(key types.NamespacedName, idle time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if idle.IsZero() {
		delete(c.idle, key)
		return
	}
	c.idle[key] = idle
}

// noteCopied notes whether the target has a Service. If that changed, it enqueues everything that depends on it: the
// Ingresses in the target, and the selector in the source.
func (c *copier) noteCopied(key types.NamespacedName, copied bool) {
	c.mu.Lock()
	was := c.copied[key]
	if copied {
		c.copied[key] = true
	} else {
		delete(c.copied, key)
	}
	c.mu.Unlock()
	if was != copied {
		c.follower.selectors.Queue.Add(item{kindService, key})
		c.enqueueIngresses(key.Namespace)
	}
}

// copyService writes the copy, and then the endpoints, which must not serve a Service that is not ours.
func (c *copier) copyService(ctx context.Context, key types.NamespacedName, from original, e *existing) error {
	there := e.service(key)
	if there != nil && headless(there) != headless(from.service) { // An update cannot change this.
		if err := c.deleteCopy(ctx, there); err != nil {
			return err
		}
		there = nil
	}
	wanted, err := c.desired.service(from.service, there)
	if err != nil {
		return fmt.Errorf("%w: %w", errUser, err)
	}
	var endpoints map[string]*discoveryv1.EndpointSlice
	err = c.writeService(ctx, wanted, there)
	if err == nil && !merged(from.service) {
		endpoints = c.desired.endpoints(original{service: wanted, slices: from.slices})
	}
	if notOurs := (*writer.NotOursError)(nil); err != nil && !errors.As(err, &notOurs) {
		return err
	}
	if err := errors.Join(err, c.writeEndpoints(ctx, c.slicesOf(key, e, true), endpoints)); err != nil {
		return err
	}
	return relaxed(from.service, wanted)
}

// writeService creates or changes the copy. It may relax the wanted one.
func (c *copier) writeService(ctx context.Context, wanted, there *corev1.Service) error {
	c.relaxUnknown(wanted)
	write := func() error { return c.createCopy(ctx, wanted) }
	if there != nil {
		write = func() error {
			return c.patchCopy(
				ctx,
				there,
				slices.Concat(c.adopt(there), metaChanges(there, wanted), specChange(there.Spec, wanted.Spec)),
			)
		}
	}
	err := write()
	if c.relax(wanted, err) {
		err = write()
	}
	if there != nil || !apierrors.IsInvalid(err) {
		return err
	}
	*wanted = *anyFamily(wanted) // The target's network may have other IP families.
	if err = write(); c.relax(wanted, err) {
		err = write()
	}
	return err
}

// writeEndpoints deletes surplus slices last: an endpoint may be there twice for a moment, but is never absent.
func (c *copier) writeEndpoints(
	ctx context.Context,
	there []*discoveryv1.EndpointSlice,
	wanted map[string]*discoveryv1.EndpointSlice,
) error {
	var errs []error
	var surplus []*discoveryv1.EndpointSlice
	for _, slice := range there {
		want, ok := wanted[slice.Name]
		switch {
		case !ok:
			surplus = append(surplus, slice)
		case want.AddressType == slice.AddressType:
			delete(wanted, slice.Name)
			errs = append(errs, c.patchCopy(ctx, slice, append(c.relabel(slice), sliceChanges(slice, want)...)))
		default:
			errs = append(errs, c.deleteCopy(ctx, slice))
		}
	}
	for _, slice := range wanted {
		errs = append(errs, c.createCopy(ctx, slice))
	}
	for _, slice := range surplus {
		errs = append(errs, c.deleteCopy(ctx, slice))
	}
	return errors.Join(errs...)
}

// slicesOf returns the EndpointSlices of a Service that were made for this target. If asked, it adds orphaned ones.
func (c *copier) slicesOf(key types.NamespacedName, e *existing, orphans bool) []*discoveryv1.EndpointSlice {
	return slices.DeleteFunc(e.endpoints(key), func(slice *discoveryv1.EndpointSlice) bool {
		return !c.mine(slice) && (!orphans || !c.orphaned(slice))
	})
}

// removeService removes the endpoints first: as long as the Service exists, a new leader sees that something remains.
func (c *copier) removeService(ctx context.Context, key types.NamespacedName, from original, e *existing) error {
	useless := !from.eligible()
	if from.service == nil {
		if exists, err := c.follower.exists(ctx, key, &corev1.Service{}); exists || err != nil {
			return err // The cache lags, and its event follows.
		}
	}
	if err := c.writeEndpoints(ctx, c.slicesOf(key, e, useless), nil); err != nil {
		return err
	}
	if there := e.service(key); there != nil {
		needs := func(other *copier) bool { // Where delegates are, the copy stays, as if the sibling had made it.
			return other.decisionOf(key, from, nil).follow || !useless && other.holds(key.Namespace)
		}
		return c.giveUp(ctx, there, useless, needs)
	}
	return nil
}

// createCopy creates a copy that the watch does not show.
func (c *copier) createCopy(ctx context.Context, wanted runtime.Object) error {
	object, err := encode(wanted)
	if err != nil {
		return err
	}
	return c.writer.Write(ctx, object, false)
}

func encode(wanted runtime.Object) (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return nil, fmt.Errorf("encoding the copy: %w", err)
	}
	return &unstructured.Unstructured{Object: object}, nil
}

// patchCopy patches this very copy, unless somebody has made it their own. A copy that has lost its mark gets it back,
// even without changes. A copy that is gone is no error: the watch reports its deletion.
func (c *copier) patchCopy(ctx context.Context, there client.Object, changes []patch.Operation) error {
	object, err := c.withKind(there)
	if err != nil {
		return err
	}
	return c.writer.Patch(ctx, object, changes)
}

// deleteCopy deletes this very copy. If it has changed, the watch reports that.
func (c *copier) deleteCopy(ctx context.Context, there client.Object) error {
	object, err := c.withKind(there)
	if err != nil {
		return err
	}
	return c.writer.Delete(ctx, object, writer.AsSeen(there))
}

// withKind returns a copy of an object that says its kind, which objects of a cache do not.
func (c *copier) withKind(object client.Object) (client.Object, error) {
	kind, err := c.target.Client.GroupVersionKindFor(object)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of a copy: %w", err)
	}
	copied := deepCopy(object)
	copied.GetObjectKind().SetGroupVersionKind(kind)
	return copied, nil
}

// deepCopy copies an object of a cache, which must not be changed.
func deepCopy(object client.Object) client.Object {
	return object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // A copy has the type of its original.
}
