package claims

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

const (
	workersName      = "claims"
	workersPerTarget = 2
	firstRetry       = 100 * time.Millisecond
	lastRetry        = time.Minute
)

// newWorkers makes the workers of a target. A key without a name stands for a search for copies in a namespace, or in
// all.
func (c *Claims) newWorkers(t *cluster) *engage.Workers[types.NamespacedName] {
	return engage.NewWorkers(engage.WorkersOptions[types.NamespacedName]{
		Name: workersName,
		Reconciler: reconcile.TypedFunc[types.NamespacedName](
			func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
				if key.Name == "" {
					return c.findCopies(ctx, key.Namespace, t)
				}
				result, err := c.reconcile(ctx, key, t)
				if err != nil || !result.IsZero() {
					return result, err
				}
				return c.takeBack(ctx, key, t)
			},
		),
		Count:      workersPerTarget,
		FirstRetry: firstRetry,
		LastRetry:  lastRetry,
		Logger:     c.options.Logger.WithValues("target", t.target.Key),
	})
}

// lookForCopies enqueues a search for copies: in all namespaces, or in those that the target names, now and later.
func (c *Claims) lookForCopies(ctx context.Context, t *cluster) error {
	if t.target.Copied == nil {
		t.workers.Queue.Add(types.NamespacedName{Namespace: t.target.Key.Namespace})
		return nil
	}
	searched := sets.New[string]() // OnChange calls one after the other.
	return t.target.Copied.OnChange(ctx, func() {
		named := t.target.Copied.Named()
		for namespace := range named.Difference(searched) {
			t.workers.Queue.Add(types.NamespacedName{Namespace: namespace})
		}
		searched = named
	})
}

// findCopies starts watches, in the source and in the target, of namespaces that have copies. Without the right to list
// them, it looks again after a while: rights can arrive later than the connection.
func (c *Claims) findCopies(ctx context.Context, namespace string, t *cluster) (reconcile.Result, error) {
	if t.target.Copied != nil && !t.target.Copied.Named().Has(namespace) {
		return reconcile.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	found := &corev1.PersistentVolumeClaimList{}
	err := t.client.List(
		ctx,
		found,
		client.InNamespace(namespace),
		client.MatchingLabels{v1alpha1.LabelParentClusterID: c.options.Source.ClusterID},
	)
	if apierrors.IsForbidden(err) {
		t.unlisted.Do(func() {
			c.options.Logger.Info("Copies of claims that were deleted here are not looked for in a target, as long as "+
				"it does not give the right to list persistentvolumeclaims",
				"target", t.target.Key, "error", err.Error())
		})
		return reconcile.Result{RequeueAfter: lastRetry}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("listing copies of claims: %w", err)
	}
	for i := range found.Items {
		if !t.mayWatch(found.Items[i].Namespace) {
			return reconcile.Result{RequeueAfter: lastRetry}, nil
		}
		c.source.claimsIn(found.Items[i].Namespace)
		t.claimsIn(found.Items[i].Namespace).found.Store(true)
	}
	return reconcile.Result{}, nil
}

// sourceChanged handles a change of a claim in the source. An empty name stands for all claims of the namespace.
func (c *Claims) sourceChanged(namespace, name string) {
	if namespace == "" {
		for namespace := range c.source.namespaces() {
			c.options.Appeared(namespace)
		}
		return
	}
	if here := c.source.listedClaims(namespace); here != nil {
		c.noteAll(namespace, name, here)
	}
	for _, t := range c.targets.All() {
		c.enqueueDue(t, namespace, name)
	}
	c.options.Appeared(namespace)
}

// noteAll notes where a claim says that its copy is, or all claims of a namespace.
func (c *Claims) noteAll(namespace, name string, here *watched) {
	if name != "" {
		c.records.note(types.NamespacedName{Namespace: namespace, Name: name}, here.Entry(name))
		return
	}
	for name, original := range here.Entries() {
		c.records.note(types.NamespacedName{Namespace: namespace, Name: name}, &original)
	}
}

// targetChanged handles a change of a claim in a target. An empty name stands for all claims of the namespace.
func (c *Claims) targetChanged(t *cluster, namespace, name string) {
	if namespace == "" {
		for namespace := range t.namespaces() {
			c.options.Appeared(namespace)
		}
		return
	}
	c.enqueueDue(t, namespace, name)
	c.options.Appeared(namespace)
}

// enqueueDue enqueues copies that seem to need a change.
func (c *Claims) enqueueDue(t *cluster, namespace, name string) {
	here, there := c.source.listedClaims(namespace), t.listedClaims(namespace)
	if here == nil || there == nil {
		return // When the claims become known, they are compared then.
	}
	copies := there.Entries()
	if name != "" {
		copies = map[string]claim{}
		if one := there.Entry(name); one != nil {
			copies[name] = *one
		}
	}
	for name, one := range copies {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		if nextStep(here.Entry(name), one) != stepNone || c.seemsSuperfluous(key, t) {
			t.workers.Queue.Add(key)
		}
	}
}

// reconcile updates or deletes a copy, after live answers of the API servers.
func (c *Claims) reconcile(ctx context.Context, key types.NamespacedName, t *cluster) (reconcile.Result, error) {
	made, there, err := t.readClaim(ctx, key)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("getting the claim there: %w", err)
	}
	if there == nil {
		return reconcile.Result{}, nil
	}
	pvc, original, err := c.source.readClaim(ctx, key)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("getting the claim here: %w", err) // The original may exist.
	}
	switch nextStep(original, *there) {
	case stepRemove:
		const reason = "Deleted a claim: the one that it was made for is gone"
		return reconcile.Result{}, c.deleteCopy(ctx, made, t, reason)
	case stepExpand:
		return c.expandCopy(ctx, pvc, made, t)
	default:
		return reconcile.Result{}, nil
	}
}

// deleteCopy deletes this very copy, as it was read.
func (c *Claims) deleteCopy(
	ctx context.Context, made *corev1.PersistentVolumeClaim, t *cluster, reason string,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	err := t.client.Delete(ctx, made, client.Preconditions{UID: &made.UID, ResourceVersion: &made.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the claim there: %w", err)
	}
	c.options.Logger.Info(reason, "claim", client.ObjectKeyFromObject(made), "target", t.name)
	return nil
}

// expandCopy requests as much storage in the target as the source's claim requests now. If a quota has no room, it says
// when to try again: nobody announces that the quota has more.
func (c *Claims) expandCopy(
	ctx context.Context, pvc, made *corev1.PersistentVolumeClaim, t *cluster,
) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	seen := map[string]any{"resourceVersion": made.ResourceVersion} // Somebody may make it their own meanwhile.
	data, err := patch.Merge(made.UID, seen, map[string]any{
		"spec": map[string]any{"resources": map[string]any{"requests": pvc.Spec.Resources.Requests}},
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	err = t.client.Patch(
		ctx,
		made,
		client.RawPatch(types.MergePatchType, data),
		client.FieldOwner(v1alpha1.FieldOwner),
	)
	class := apierror.Of(err, apierror.Existing)
	if class.Refusal() {
		c.recordNotExpanded(pvc, t, err)
	}
	switch {
	case class == apierror.OK || class == apierror.NotFound:
		return reconcile.Result{}, nil
	case class == apierror.QuotaExceeded:
		return reconcile.Result{RequeueAfter: lastRetry}, nil
	case class.Refusal() && class != apierror.RightsMissing: // Rights that are missing may be about to arrive.
		return reconcile.Result{}, nil
	default:
		return reconcile.Result{}, fmt.Errorf("expanding the claim there: %w", err)
	}
}
