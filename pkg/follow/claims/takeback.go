package claims

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

const (
	// oldEnough is how old a copy is at least when it is taken back. A volume that was made for it by hand is bound to
	// it by two writes, the first of which nobody sees in the copy.
	oldEnough = 10 * time.Second
	// pageOfChaperons is how many PodChaperons are listed at once, and mostPages how many times.
	pageOfChaperons, mostPages = 100, 1000
	// usedWithin is how long anybody looks for PodChaperons that use a claim.
	usedWithin = 2 * timeouts.Request
	// annotationSelectedNode is the node for whose delegate a volume of the claim is made.
	annotationSelectedNode = "volume.kubernetes.io/selected-node"
)

// Refused notes that the target was given up for the pod. Copies that were made there for nothing are taken back, so
// that they do not keep the pod from other targets. It does not block.
func (c *Claims) Refused(pod *corev1.Pod, target *engage.Target) {
	t, ok := c.targets.Get(target)
	if !ok {
		return
	}
	here := c.source.listedClaims(pod.Namespace)
	for _, name := range namesOf(pod) {
		if here != nil {
			if original := here.Entry(name); original == nil || !original.follow {
				continue
			}
		}
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		c.asks.withdraw(key, pod.UID, t.location)
		t.setIdle(key, true)
		t.workers.Queue.Add(key)
	}
}

// keepsForNothing notes that the copy of a claim keeps a pod that is nowhere from a target. Such a pod is not refused,
// and does not move, as long as the copy's target has no room. An earlier pod may have been refused, or an earlier
// leader or engagement may have known of a refusal. If the watches show that the copy has no data, it is taken back
// after a moment, in which the pod may come to it. It does not block.
func (c *Claims) keepsForNothing(key types.NamespacedName, original *claim) {
	for _, t := range c.targets.All() {
		at := original.followedTo.sameClusterAs(t.location) && t.target.Allows(key.Namespace)
		if at && seemsReleasable(key, original, t) && !t.isIdle(key) {
			t.setIdle(key, true)
			t.workers.Queue.AddAfter(key, oldEnough)
		}
	}
}

func (c *cluster) setIdle(key types.NamespacedName, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if idle {
		c.idle.Insert(key)
	} else {
		c.idle.Delete(key)
	}
}

func (c *cluster) isIdle(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.Has(key)
}

// takeBack deletes a copy without data that is in a target for nothing, and gives the claim free. A copy without data
// also goes if the claim is in another cluster: the request that made the copy was carried out after we gave it up.
// takeBack relies on live answers only. When it is not sure, the copy stays. So it does while the PodChaperon of a pod
// that has asked for it may still come.
func (c *Claims) takeBack(ctx context.Context, key types.NamespacedName, t *cluster) (reconcile.Result, error) {
	if !t.isIdle(key) && !c.seemsSuperfluous(key, t) {
		return reconcile.Result{}, nil
	}
	release, err := c.ensuring.enter(ctx, key)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("waiting for a pod with the claim: %w", err)
	}
	defer release()
	pvc, original, err := c.source.readClaim(ctx, key)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("getting the claim here: %w", err)
	}
	made, there, err := t.readClaim(ctx, key)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("getting the claim there: %w", err)
	}
	s := situation{original: original, there: there}
	superfluous := s.isSuperfluous(t.location)
	if !superfluous && !t.isIdle(key) {
		return reconcile.Result{}, nil // A pod has asked for it meanwhile, or the claim is here again.
	}
	if !s.mayTakeBack(made, t.location) {
		t.setIdle(key, false)
		return reconcile.Result{}, nil
	}
	if there != nil {
		if left := oldEnough - t.ageOf(made); left > 0 {
			return reconcile.Result{RequeueAfter: left}, nil
		}
	}
	if wait := c.asks.wait(key, t.location, "", c.options.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	return reconcile.Result{}, c.takeUnused(ctx, pvc, made, t, superfluous)
}

// mayTakeBack says whether the copy is the one that the claim's annotations name, or a superfluous one, and is gone or
// has no data. made is the copy as it was read.
func (s situation) mayTakeBack(made *corev1.PersistentVolumeClaim, at location) bool {
	if s.original == nil || s.original.deleting || !s.original.follow {
		return false
	}
	if !s.hasCopyIn(at) && !s.isSuperfluous(at) {
		return false
	}
	return s.there == nil || s.there.isMadeFor(s.original) && isEmpty(made)
}

// isSuperfluous says whether the target has a copy of a claim that is surely in another cluster.
func (s situation) isSuperfluous(at location) bool {
	return s.original != nil && s.there != nil && s.there.isMadeFor(s.original) && !s.there.deleting &&
		s.original.followedTo.clusterID != "" && at.clusterID != "" && !s.original.followedTo.sameClusterAs(at)
}

// seemsSuperfluous is isSuperfluous as far as the watches show.
func (c *Claims) seemsSuperfluous(key types.NamespacedName, t *cluster) bool {
	here, there := c.source.listedClaims(key.Namespace), t.listedClaims(key.Namespace)
	if here == nil || there == nil {
		return false
	}
	s := situation{original: here.Entry(key.Name), there: there.Entry(key.Name)}
	return s.isSuperfluous(t.location) && s.there.empty
}

// isEmpty says whether a claim has no volume, and no node for which one is made. So no pod was ever scheduled with it.
func isEmpty(pvc *corev1.PersistentVolumeClaim) bool {
	_, selected := pvc.Annotations[annotationSelectedNode]
	pending := pvc.Status.Phase == "" || pvc.Status.Phase == corev1.ClaimPending
	return pending && pvc.Spec.VolumeName == "" && !selected
}

// ageOf returns the age of a copy by the target's clock.
func (c *cluster) ageOf(made *corev1.PersistentVolumeClaim) time.Duration {
	return c.clock.Now().Add(c.target.Account.Ahead()).Sub(made.CreationTimestamp.Time)
}

// takeUnused deletes an empty copy that no PodChaperon uses, unless it is gone. Then it gives the claim free, unless
// the copy was superfluous. The other order could leave a copy that nobody knows.
func (c *Claims) takeUnused(
	ctx context.Context, pvc, made *corev1.PersistentVolumeClaim, t *cluster, superfluous bool,
) error {
	key := client.ObjectKeyFromObject(pvc)
	used, err := c.isUsed(ctx, key, made, t, "")
	if err != nil {
		return fmt.Errorf("looking whether the claim is used there: %w", err)
	}
	if used {
		t.setIdle(key, false)
		return nil
	}
	if err := t.confirm(ctx); err != nil {
		return fmt.Errorf("confirming that the claim has no volume: %w", err)
	}
	if made != nil {
		reason := "Deleted a claim: no pod uses it there, and it has no volume"
		if superfluous {
			reason = "Deleted a claim: the one that it was made for is in another cluster, and it has no volume"
		}
		if err := c.deleteCopy(ctx, made, t, reason); err != nil {
			return err
		}
	}
	if !superfluous {
		if err := c.annotate(ctx, pvc, location{}); err != nil {
			return err
		}
	}
	t.setIdle(key, false)
	return nil
}

// isUsed says whether a PodChaperon in the target's cluster, other than that of the name given, refers to the claim.
// Siblings are asked, too: each sees its own PodChaperons only. A target tells its cluster ID itself. So only those are
// siblings that show the very copy, which is nil if it is gone. It ends in time, whatever targets answer.
func (c *Claims) isUsed(
	ctx context.Context, key types.NamespacedName, made *corev1.PersistentVolumeClaim, t *cluster, except string,
) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, usedWithin)
	defer cancel()
	var asked errgroup.Group
	var used atomic.Bool
	ask := func(other *cluster) {
		asked.Go(func() error {
			if other != t && !other.target.Has(ctx, made) {
				return nil
			}
			uses, err := other.uses(ctx, key, except)
			if uses {
				used.Store(true)
			}
			return err
		})
	}
	ask(t)
	for _, other := range c.targets.All() {
		if other != t && made != nil && other.sameClusterAs(t.location) && other.target.Allows(key.Namespace) {
			ask(other)
		}
	}
	err := asked.Wait()
	switch {
	case used.Load():
		return true, nil
	case err != nil:
		return false, err
	default:
		return false, ctx.Err()
	}
}

// uses asks the target's API server for other PodChaperons that refer to the claim, page by page. If there is no end of
// pages, the claim counts as used.
func (c *cluster) uses(ctx context.Context, key types.NamespacedName, except string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, usedWithin)
	defer cancel()
	page := &v1alpha1.PodChaperonList{}
	for range mostPages {
		next := page.Continue
		page = &v1alpha1.PodChaperonList{}
		err := c.listChaperons(
			ctx, page, client.InNamespace(key.Namespace), client.Limit(pageOfChaperons), client.Continue(next),
		)
		if err != nil {
			return false, err
		}
		for i := range page.Items {
			chaperon := &page.Items[i]
			if chaperon.Name != except && slices.Contains(namesOf(&corev1.Pod{Spec: chaperon.Spec}), key.Name) {
				return true, nil
			}
		}
		if page.Continue == "" {
			return false, nil
		}
	}
	return true, nil
}

func (c *cluster) listChaperons(
	ctx context.Context, page *v1alpha1.PodChaperonList, options ...client.ListOption,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	return c.target.APIReader.List(ctx, page, options...)
}
