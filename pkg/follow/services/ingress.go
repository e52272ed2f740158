package services

import (
	"context"
	"errors"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// errNoClass says that the target has the copy of an Ingress, and lacks its class.
var errNoClass = errors.New("the copy serves nobody")

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
	return exists && c.noted[item{kindService, key}].note == ""
}

// copyIngress writes the copy once its Secrets are in the target.
func (c *copier) copyIngress(ctx context.Context, from, there *networkingv1.Ingress) error {
	key, wanted := keyOf(from), c.desired.ingress(from, there)
	if err := c.refusedAgain(ctx, from, wanted, there); err != nil {
		return err
	}
	if err := c.keepCertificates(ctx, key, certificates(from)); err != nil {
		return err
	}
	if err := c.writeIngress(ctx, c.writer, wanted, there); err != nil {
		// While no Ingress names the Secrets, the target removes them. So the next attempt looks for them again.
		return errors.Join(err, c.keepCertificates(ctx, key, certificatesThere(from, there)))
	}
	return c.checkClass(ctx, ptr.Deref(wanted.Spec.IngressClassName, ""))
}

// refusedAgain returns the refusal of the last attempt if the target refuses a dry run in the same words. So the
// Secrets of an Ingress that a target refuses are not written, removed there, and written again with each attempt.
func (c *copier) refusedAgain(ctx context.Context, from, wanted, there *networkingv1.Ingress) error {
	c.mu.Lock()
	last := c.noted[item{kindIngress, keyOf(from)}].note
	c.mu.Unlock()
	if last == "" {
		return nil
	}
	err := c.writeIngress(ctx, c.trial, wanted, there)
	if message := refusal(err); message == "" || noteOf(from, message) != last {
		return nil // Only an attempt can say why.
	}
	return err
}

// certificatesThere returns the Secrets that a copy names. Their originals may have changed since it was written.
func certificatesThere(from, there *networkingv1.Ingress) []string {
	if there == nil {
		return nil
	}
	return certificates(&networkingv1.Ingress{ObjectMeta: from.ObjectMeta, Spec: there.Spec})
}

// checkClass returns an error for users if the target lacks the class of an Ingress. API servers do not look for it. A
// target of an earlier version does not let us look.
func (c *copier) checkClass(ctx context.Context, name string) error {
	c.mu.Lock()
	known := name == "" || c.classes.Has(name)
	c.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	class := &metav1.PartialObjectMetadata{}
	class.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("IngressClass"))
	switch err := c.target.APIReader.Get(ctx, types.NamespacedName{Name: name}, class); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf(
			"%w: there is no IngressClass %q; create it there, or use one that all targets have", errNoClass, name,
		)
	case err != nil && !apierrors.IsForbidden(err):
		return fmt.Errorf("looking for the class of an Ingress: %w", err)
	case err == nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.classes.Insert(name)
	}
	return nil
}

func (c *copier) writeIngress(ctx context.Context, by *writer.Writer, wanted, there *networkingv1.Ingress) error {
	if there == nil {
		object, err := encode(wanted)
		if err != nil {
			return err
		}
		return by.Write(ctx, object, false)
	}
	object, err := c.withKind(there)
	if err != nil {
		return err
	}
	return by.Patch(
		ctx,
		object,
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
