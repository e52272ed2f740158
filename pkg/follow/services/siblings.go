package services

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Several targets may lead to one cluster, at a time or one after the other: a renamed target is another target. The
// label target-id of a copy says which of them looks after the copy. Copies of earlier versions have only the label
// target-hash.

// leadTogether says whether two targets say that they lead to one cluster. One that lies gets no copy of the other's
// cluster: see giveUp.
func leadTogether(a, b *engage.Target) bool { return a.ClusterID != "" && a.ClusterID == b.ClusterID }

// mine says whether a copy was made for this target.
func (c *copier) mine(there client.Object) bool { return c.target.Made(there) }

// orphaned says whether no engaged target that leads to this cluster looks after a copy.
func (c *copier) orphaned(there client.Object) bool {
	return !slices.ContainsFunc(c.follower.copiers.All(), func(other *copier) bool {
		unknown := other.target.ClusterID == "" || c.target.ClusterID == ""
		return other.mine(there) && (unknown || other == c || leadTogether(other.target, c.target))
	})
}

// siblings returns the other targets that lead to this cluster and allow the namespace.
func (c *copier) siblings(namespace string) []*copier {
	return slices.DeleteFunc(c.follower.copiers.All(), func(other *copier) bool {
		return other == c || other.target.Key == c.target.Key || other.target.Itself ||
			!other.target.Allows(namespace) ||
			!leadTogether(other.target, c.target)
	})
}

// adopt returns the change by which this target takes over an orphaned copy. A copy of an earlier version that is this
// target's gets the label target-id.
func (c *copier) adopt(there client.Object) []patch.Operation {
	if c.mine(there) {
		return c.relabel(there)
	}
	if !c.orphaned(there) {
		return nil
	}
	return lookedAfterBy(c.target)
}

// relabel returns the change that gives this target's copy the label target-id, or nothing if the copy has it.
func (c *copier) relabel(there client.Object) []patch.Operation {
	if translate.HasTargetID(there.GetLabels()) {
		return nil
	}
	return lookedAfterBy(c.target)
}

func lookedAfterBy(target *engage.Target) []patch.Operation {
	label := func(key string) string { return patch.Pointer("metadata", "labels", key) }
	return []patch.Operation{
		patch.Add(label(v1alpha1.LabelTargetID), translate.TargetID(target.Key)),
		patch.Add(label(v1alpha1.LabelTargetHash), translate.TargetHash(target.Key)),
	}
}

// giveUp gives up a copy that this target does not need. A sibling that needs the copy takes it over, if it shows this
// very copy. A copy that was made for another target is deleted only if nobody can need it.
func (c *copier) giveUp(ctx context.Context, there client.Object, useless bool, needs func(other *copier) bool) error {
	if !c.mine(there) {
		if useless && c.orphaned(there) {
			return c.deleteCopy(ctx, there)
		}
		return nil
	}
	for _, sibling := range c.siblings(there.GetNamespace()) {
		if needs(sibling) && sibling.target.Has(ctx, there) {
			return c.patchCopy(ctx, there, lookedAfterBy(sibling.target))
		}
	}
	return c.deleteCopy(ctx, there)
}

// handOver enqueues the remaining copies for the siblings, and keeps Secrets no longer. If the same target was engaged
// anew, that engagement goes on to keep them.
func (c *copier) handOver(ctx context.Context) {
	again := slices.ContainsFunc(
		c.follower.copiers.All(),
		func(other *copier) bool { return other.target.Key == c.target.Key },
	)
	c.mu.Lock()
	secured := c.secured
	c.secured = map[types.NamespacedName]bool{}
	c.mu.Unlock()
	for ingress := range secured {
		if again {
			break
		}
		if err := c.follower.options.KeepSecrets(ctx, c.target, ingress, nil); err != nil {
			logger := c.follower.options.Logger.WithValues("target", c.target.Key, "ingress", ingress)
			logger.Error(err, "TLS Secrets are still kept")
		}
	}
	for _, other := range c.follower.copiers.All() {
		if other != c && leadTogether(other.target, c.target) {
			other.searchAgain()
			other.compare(c.target.Key.Namespace)
		}
	}
}
