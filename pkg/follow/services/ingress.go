package services

import (
	"context"
	"errors"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reconcileIngress creates, updates or deletes the copy of an Ingress.
func (c *copier) reconcileIngress(ctx context.Context, key types.NamespacedName) error {
	from, known := c.follower.originals.ingress(key)
	if !known {
		return nil
	}
	e, err := c.listedExisting(ctx, key.Namespace)
	if err != nil {
		return err
	}
	if c.wants(from, e) {
		if e, err = c.ensureExisting(ctx, key.Namespace); err != nil {
			return err
		}
		if err := e.waitIngresses(ctx); err != nil {
			return err
		}
		return c.copyIngress(ctx, from, e.ingress(key))
	}
	if from == nil && e != nil && e.ingress(key) != nil {
		if exists, err := c.follower.exists(ctx, key, &networkingv1.Ingress{}); exists || err != nil {
			return err // The cache lags, and its event follows.
		}
	}
	if err := c.keepCertificates(ctx, key, nil); err != nil || e == nil || e.ingress(key) == nil {
		return err
	}
	return c.giveUp(ctx, e.ingress(key), from == nil, func(other *copier) bool { return other.wants(from, e) })
}

// wants says whether an Ingress goes to the target: it does if all of its backends do.
func (c *copier) wants(ingress *networkingv1.Ingress, e *existing) bool {
	if ingress == nil || isCopy(ingress) {
		return false
	}
	if global(ingress) {
		return true
	}
	names, all := backends(ingress)
	return all && e != nil && !slices.ContainsFunc(names, func(name string) bool {
		key := types.NamespacedName{Namespace: ingress.Namespace, Name: name}
		from, known := c.follower.originals.service(key)
		return !known || !c.decisionOf(key, from, e).follow || !c.backs(key, e, e.ingress(keyOf(ingress)) != nil)
	})
}

// backs says whether the Service that an Ingress in the target would find is ours. An Ingress that exists stays while
// its Service is recreated, unless the target refuses the Service.
func (c *copier) backs(key types.NamespacedName, e *existing, exists bool) bool {
	if e.service(key) != nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return exists && c.noted[item{kindService, key}] == ""
}

// copyIngress writes the copy once its Secrets are in the target.
func (c *copier) copyIngress(ctx context.Context, from, there *networkingv1.Ingress) error {
	key := keyOf(from)
	if err := c.keepCertificates(ctx, key, certificates(from)); err != nil {
		return err
	}
	err := c.writeIngress(ctx, c.desired.ingress(from), there)
	if err != nil {
		// While no Ingress names the Secrets, the target removes them. The next attempt writes them again.
		err = errors.Join(err, c.keepCertificates(ctx, key, nil))
	}
	return err
}

func (c *copier) writeIngress(ctx context.Context, wanted, there *networkingv1.Ingress) error {
	if there == nil {
		return c.createCopy(ctx, wanted)
	}
	return c.patchCopy(
		ctx,
		there,
		slices.Concat(c.adopt(there), metaChanges(there, wanted), specChange(there.Spec, wanted.Spec)),
	)
}

func (c *copier) keepCertificates(ctx context.Context, ingress types.NamespacedName, names []string) error {
	if c.follower.options.KeepSecrets == nil {
		return nil
	}
	c.mu.Lock()
	if len(names) > 0 {
		c.secured[ingress] = true
	} else {
		delete(c.secured, ingress)
	}
	c.mu.Unlock()
	if err := c.follower.options.KeepSecrets(ctx, c.target, ingress, names); err != nil {
		return fmt.Errorf("ensuring the TLS Secrets: %w", err)
	}
	return nil
}

// enqueueIngresses enqueues the Ingresses of a namespace, because a Service on which they depend changed.
func (c *copier) enqueueIngresses(namespace string) {
	for _, i := range c.follower.originals.items(namespace) {
		if i.kind == kindIngress {
			c.workers.Queue.Add(i)
		}
	}
}

func keyOf(ingress *networkingv1.Ingress) types.NamespacedName {
	return types.NamespacedName{Namespace: ingress.Namespace, Name: ingress.Name}
}
