package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// errPartly says that the target gets some backends of an Ingress, and lacks the Ingress because it lacks others.
var errPartly = errors.New("not copied")

// followIngress reconciles the copy of an Ingress, and returns the time until its backends are to be compared again.
func (c *copier) followIngress(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	if err := c.reconcileIngress(ctx, key); err != nil {
		return 0, err
	}
	return c.checkBackends(ctx, key)
}

// checkBackends returns an error for users if the target does not get an Ingress because only some of its backends are
// followed. Services are followed one after the other, so this must last for grace. Until then, checkBackends returns
// the rest of that time.
func (c *copier) checkBackends(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	e, err := c.listedExisting(ctx, key.Namespace)
	if err != nil {
		return 0, err
	}
	from, _ := c.follower.originals.ingress(key)
	err = c.missingBackend(from, e)
	now := c.follower.options.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.partly, key)
		return 0, nil
	}
	if c.partly[key].IsZero() {
		c.partly[key] = now
	}
	if wait := grace - now.Sub(c.partly[key]); wait > 0 {
		return wait, nil
	}
	return 0, err
}

// missingBackend returns an error for users if the target has some backends of an Ingress, and another is not followed.
// An Ingress of which the target has no backend is not meant for the target. A sibling may look after the copy.
func (c *copier) missingBackend(ingress *networkingv1.Ingress, e *existing) error {
	if ingress == nil || isCopy(ingress) || global(ingress) || e == nil || e.ingress(keyOf(ingress)) != nil {
		return nil
	}
	some, missing := c.compareBackends(ingress, e)
	if !some || slices.ContainsFunc(c.siblings(ingress.Namespace), func(other *copier) bool {
		return other.wants(ingress, e)
	}) {
		return nil
	}
	return missing
}

// compareBackends says whether the target has some backend of an Ingress, and returns an error for users about the
// first one that is not followed. A Service that is followed, and that the target does not have yet, or refuses, counts
// as neither: such a Service has events of its own.
func (c *copier) compareBackends(ingress *networkingv1.Ingress, e *existing) (some bool, missing error) {
	services, all := backends(ingress)
	for _, name := range services {
		key := types.NamespacedName{Namespace: ingress.Namespace, Name: name}
		from, known := c.follower.originals.service(key)
		switch {
		case c.decisionOf(key, from, e).follow:
			some = some || e.service(key) != nil
		case known && missing == nil:
			missing = notFollowed(name, from)
		}
	}
	if missing == nil && !all {
		missing = fmt.Errorf(
			"%w: it has a backend that is no Service, which is not carried; delete the backend, or, if the targets "+
				"have such a backend, annotate the Ingress with %s: %q", errPartly, v1alpha1.AnnotationGlobal, "true",
		)
	}
	return some, missing
}

// notFollowed returns an error for users about a backend that does not go to the target.
func notFollowed(service string, from original) error {
	if from.followable() {
		return fmt.Errorf(
			"%w: its backend Service %q is not followed to this target; annotate the Service with %s: %q, or delete "+
				"the backend", errPartly, service, v1alpha1.AnnotationGlobal, "true",
		)
	}
	return fmt.Errorf(
		"%w: its backend Service %q is not followed to any target; delete the backend, or, if the targets have such a "+
			"Service, annotate the Ingress with %s: %q", errPartly, service, v1alpha1.AnnotationGlobal, "true",
	)
}
