package claims

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// isReleasable says whether the copy of a claim keeps a pod in the target where the pod is now, and could be taken
// back, as far as the watches show. from may be nil.
func (c *Claims) isReleasable(key types.NamespacedName, original *claim, from *engage.Target) bool {
	if from == nil {
		return false
	}
	t, ok := c.targets.Get(from)
	return ok && seemsReleasable(key, original, t)
}

// seemsReleasable says whether a claim says that its copy is in this target, and the copy could be taken back, as far
// as the watches show.
func seemsReleasable(key types.NamespacedName, original *claim, t *cluster) bool {
	if original == nil || original.followedTo.name == "" || !t.target.Reachable() {
		return false
	}
	w := t.listedClaims(key.Namespace)
	if w == nil {
		return false
	}
	s := situation{original: original, there: w.Entry(key.Name)}
	return s.there != nil && s.there.empty && !s.there.deleting && original.follow && !original.deleting &&
		s.there.isMadeFor(original) && s.hasCopyIn(t.location)
}

// MayRelease returns an error if Release would not take back a claim: it may have data, it is too young, another pod
// uses it, or nobody knows.
func (c *Claims) MayRelease(ctx context.Context, pod *corev1.Pod, from *engage.Target) error {
	t, ok := c.targets.Get(from)
	if !ok {
		return nil // No claim keeps the pod there.
	}
	for _, name := range namesOf(pod) {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		if err := c.mayRelease(ctx, key, t, pod); err != nil {
			return fmt.Errorf("claim %q: %w", name, err)
		}
	}
	return nil
}

func (c *Claims) mayRelease(ctx context.Context, key types.NamespacedName, t *cluster, pod *corev1.Pod) error {
	_, original, err := c.source.readClaim(ctx, key)
	if err != nil {
		return fmt.Errorf("getting it here: %w", err)
	}
	if !original.isSomewhere() {
		return nil // It keeps the pod nowhere, whatever the target lets us read.
	}
	made, there, err := t.readClaim(ctx, key)
	if err != nil {
		return fmt.Errorf("getting it there: %w", err)
	}
	s := situation{original: original, there: there}
	switch {
	case !s.isKeptIn(t.location):
		return nil
	case !s.mayTakeBack(made, t.location):
		return errors.New("it may have data there")
	case there != nil && t.ageOf(made) < oldEnough:
		return fmt.Errorf("it is younger than %s there", oldEnough)
	case c.asks.wait(key, t.location, pod.UID, c.options.Clock.Now()) > 0:
		return errors.New("another pod is about to use it there")
	}
	used, err := c.isUsed(ctx, key, made, t, translate.DelegateName(pod))
	switch {
	case err != nil:
		return fmt.Errorf("looking who uses it there: %w", err)
	case used:
		return errors.New("another pod uses it there")
	}
	return nil
}

// Release takes back the claims without data that keep a pod in a target that has no delegate of it any more. It
// returns an error if one is still kept there.
func (c *Claims) Release(ctx context.Context, pod *corev1.Pod, from *engage.Target) error {
	t, ok := c.targets.Get(from)
	if !ok {
		return nil
	}
	c.Refused(pod, from)
	for _, name := range namesOf(pod) {
		if err := c.release(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, t); err != nil {
			return fmt.Errorf("claim %q: %w", name, err)
		}
	}
	return nil
}

func (c *Claims) release(ctx context.Context, key types.NamespacedName, t *cluster) error {
	_, original, err := c.source.readClaim(ctx, key)
	if err != nil || !original.isSomewhere() {
		return err
	}
	if _, err := c.takeBack(ctx, key, t); err != nil {
		return err
	}
	if _, original, err = c.source.readClaim(ctx, key); err != nil {
		return err
	}
	if (situation{original: original}).isKeptIn(t.location) {
		return fmt.Errorf("it stays in %s", t.name)
	}
	return nil
}

// isSomewhere says whether a claim, which may be nil, is followed, and says that it has a copy.
func (c *claim) isSomewhere() bool { return c != nil && c.follow && c.followedTo.name != "" }

// isKeptIn says whether a followed claim says that its copy is in a target.
func (s situation) isKeptIn(at location) bool { return s.original.isSomewhere() && s.hasCopyIn(at) }
