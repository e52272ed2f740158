package claims

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
)

// clockMargin is how much the clocks of the source's API server and of this process may differ.
const clockMargin = time.Minute

// keeperOf finds the target that keeps the copy of a claim that does not say where it is. It returns nil if the claim
// says so, or if no target has a copy. It returns a *needs.RefusedError if nobody knows.
func (c *Claims) keeperOf(ctx context.Context, key types.NamespacedName, s situation, t *cluster) (*cluster, error) {
	switch {
	case s.original.followedTo.name != "" || c.isNew(s.original):
		return nil, nil
	case s.original.givenUp:
		return c.shown(ctx, key, s), nil
	}
	away, err := c.options.Connected(ctx, key.Namespace, s.original.created.Add(-clockMargin))
	if err != nil {
		return nil, fmt.Errorf("listing targets: %w", err)
	}
	return c.lookAll(ctx, key, s.original, t).keeper(key, sets.New(away...))
}

// isNew says whether the claim was made while this process led. So a copy of it would be on record.
func (c *Claims) isNew(original *claim) bool {
	leads := c.leads.Load()
	return leads != nil && !original.givenUp && original.created.After(leads.Add(clockMargin))
}

// shown finds another target that shows a copy of a claim that was given up. An unreachable target does not count: the
// claim was given up because of it. A copy that was taken back may be shown for a while, and does not count either.
func (c *Claims) shown(ctx context.Context, key types.NamespacedName, s situation) *cluster {
	if s.there != nil && s.there.isMadeFor(s.original) {
		return nil
	}
	for _, t := range c.targets.All() {
		if !t.target.Allows(key.Namespace) {
			continue
		}
		if w := t.listedClaims(key.Namespace); w != nil && t.target.Reachable() {
			there := w.Entry(key.Name)
			if there != nil && there.isMadeFor(s.original) && !t.isGoing(ctx, key) {
				return t
			}
		}
	}
	return nil
}

// isGoing asks the target, and says whether a claim is gone, or goes without data.
func (c *cluster) isGoing(ctx context.Context, key types.NamespacedName) bool {
	made, there, err := c.readClaim(ctx, key)
	return err == nil && (there == nil || goes(made))
}

// goes says whether a claim is being deleted, and has no data.
func goes(made *corev1.PersistentVolumeClaim) bool {
	return made.DeletionTimestamp != nil && isEmpty(made)
}

// sighting is what one target says about the copy of a claim, or about the claim that is used in its place.
type sighting struct {
	*cluster

	answered bool
	copied   types.UID // of the copy, or empty
	data     bool      // whether the copy may have data
}

type sightings []sighting

// lookAll asks all targets that are allowed the namespace at the same time.
func (c *Claims) lookAll(ctx context.Context, key types.NamespacedName, original *claim, t *cluster) sightings {
	targets := slices.DeleteFunc(c.targets.All(), func(t *cluster) bool { return !t.target.Allows(key.Namespace) })
	seen := make(sightings, len(targets))
	var asked sync.WaitGroup
	for i, target := range targets {
		asked.Go(func() { seen[i] = target.look(ctx, key, original) })
	}
	asked.Wait()
	slices.SortFunc(seen, func(a, b sighting) int { // The target in question comes first.
		switch {
		case a.cluster == t:
			return -1
		case b.cluster == t:
			return 1
		default:
			return strings.Compare(a.name, b.name)
		}
	})
	return seen
}

// look asks one target. It lacks the copy only if what it says is of the present. Each claim counts that pods with the
// original use there, not only one that is known to be our copy.
func (c *cluster) look(ctx context.Context, key types.NamespacedName, original *claim) sighting {
	seen := sighting{cluster: c}
	if !c.target.Reachable() {
		return seen
	}
	made, there, err := c.readClaim(ctx, key)
	switch {
	case apierror.Of(err, apierror.Existing) == apierror.RightsMissing && c.hasNoCopiesIn(key.Namespace):
		seen.answered = true
	case err != nil:
	case there == nil || goes(made) || !there.serves(original):
		seen.answered = c.confirm(ctx) == nil
	case there.isMadeFor(original):
		seen.answered, seen.copied, seen.data = true, there.uid, !isEmpty(made)
	default:
		return c.lookAtUnmarked(ctx, made, original)
	}
	return seen
}

// lookAtUnmarked is look for a claim that serves the original, and is not known to be our copy: somebody made it or
// restored it, or it has lost its marks, or it is the original itself. It may have data of pods with the original. One
// without a volume has none, and may have been there from the start. So it counts only if a PodChaperon refers to it. A
// volume that somebody made for it by hand is bound to it after a moment: see oldEnough.
func (c *cluster) lookAtUnmarked(ctx context.Context, made *corev1.PersistentVolumeClaim, original *claim) sighting {
	if !isEmpty(made) || filledFrom(&made.Spec) != "" {
		return sighting{cluster: c, answered: true, copied: made.UID, data: true}
	}
	used, err := c.uses(ctx, client.ObjectKeyFromObject(made), "")
	switch {
	case err != nil || made.UID != original.uid && c.ageOf(made) < oldEnough:
		return sighting{cluster: c}
	case used:
		return sighting{cluster: c, answered: true, copied: made.UID}
	default:
		return sighting{cluster: c, answered: c.confirm(ctx) == nil}
	}
}

// hasNoCopiesIn says whether the target says that it has no copies in a namespace that it does not let us read.
func (c *cluster) hasNoCopiesIn(namespace string) bool {
	return c.target.Copied != nil && !c.target.Copied.Named().Has(namespace)
}

// keeper returns the target with the copy, or nil if there is none. connected are the targets that may have the copy. A
// target of which nobody knows whether it has the copy counts as having it.
func (all sightings) keeper(key types.NamespacedName, connected sets.Set[string]) (*cluster, error) {
	silent, with := connected, map[types.UID]sighting{}
	for _, seen := range all {
		switch {
		case !seen.answered && seen.target.Reachable():
			silent.Insert(seen.name)
		case seen.answered:
			silent.Delete(seen.name)
		}
		if _, sibling := with[seen.copied]; seen.copied != "" && !sibling {
			with[seen.copied] = seen
		}
	}
	if len(silent) > 0 {
		return nil, refusedError(key, apierror.OK, fmt.Sprintf("does not say where it is, and may be in %[1]s, which "+
			"cannot be asked now: wait for %[1]s, or say where it is by the annotation "+
			"multicluster.admiralty.io/followed-to of the claim, empty for nowhere",
			strings.Join(sets.List(silent), ", ")))
	}
	return all.choose(key, with)
}

// choose returns the target with the only copy that may have data, or one with a copy without data. If several may have
// data, a user has to say which one counts.
func (all sightings) choose(key types.NamespacedName, with map[types.UID]sighting) (*cluster, error) {
	var full, empty []*cluster
	var names []string
	for _, seen := range all {
		switch {
		case seen.copied == "" || with[seen.copied].cluster != seen.cluster:
		case seen.data:
			full, names = append(full, seen.cluster), append(names, seen.name)
		default:
			empty = append(empty, seen.cluster)
		}
	}
	switch {
	case len(full) > 1:
		return nil, refusedError(key, apierror.OK, fmt.Sprintf("does not say where it is, and may have data in each "+
			"of %s: write the name of the right one into the annotation multicluster.admiralty.io/followed-to of the "+
			"claim, or leave its value empty to give up all of them", strings.Join(names, ", ")))
	case len(full) == 1:
		return full[0], nil
	case len(empty) > 0:
		return empty[0], nil
	default:
		return nil, nil
	}
}
