package claims

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/claims"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// nextLeader starts a manager after the first one, and engages the targets c2 and c3 of a namespace for it. It returns
// what the manager knows of claims, and c3.
func nextLeader(t *testing.T, namespace string) (next *claims.Claims, c3 *env.Target) {
	t.Helper()
	next, targets := newLeader(t)
	newTarget(namespace, "c2", cluster2, logins[cluster2]).Engage(t, targets)
	c3 = newTarget(namespace, "c3", cluster3, logins[cluster3])
	c3.Engage(t, targets)
	return next, c3
}

// waitUntilItMayGo waits until the claims of a pod that is nowhere do not keep it from a target.
func waitUntilItMayGo(t *testing.T, leader *claims.Claims, pod *corev1.Pod, target *env.Target) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		return isFree(leader.Objection(pod, target.Target, nil))
	})
}

// isFree returns an error if there is an objection.
func isFree(objection string) error {
	if objection != "" {
		return errors.New(objection)
	}
	return nil
}

// TestTheNextLeaderFindsTheDataOfAClaimThatLostItsAnnotation has claims in c2 that are used as copies, although they
// are not known to be ours.
func TestTheNextLeaderFindsTheDataOfAClaimThatLostItsAnnotation(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *env.Target) (original, made *corev1.PersistentVolumeClaim){
		"somebody made it": func(t *testing.T, c2 *env.Target) (original, made *corev1.PersistentVolumeClaim) {
			t.Helper()
			made = create(t, c2.Cluster, c2.Key.Namespace, "data", ofClass("fast"))
			return createFollowed(t, c2.Key.Namespace, "data"), made
		},
		"its owner took it over": func(t *testing.T, c2 *env.Target) (original, made *corev1.PersistentVolumeClaim) {
			t.Helper()
			_, original, made = copied(t, c2)
			env.Change(t, c2.Cluster, made, func(made *corev1.PersistentVolumeClaim) {
				delete(made.Labels, v1alpha1.LabelParentUID)
			})
			return original, made
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace, c2, c3 := engaged(t)
			pod := podWith(namespace, "data")
			original, made := prepare(t, c2)
			bind(t, c2.Cluster, made)
			waitForObjection(t, pod, c2, "")
			mustEnsure(t, pod, c2)
			expectFollowedTo(t, original, c2.Key.String())
			replace(t, original)

			next, toC3 := nextLeader(t, namespace)
			waitUntilItMayGo(t, next, pod, toC3) // As far as the watches show.
			err := next.Ensure(t.Context(), pod, toC3.Target)
			var refused *needs.RefusedError
			if !errors.As(err, &refused) || refused.Reason != "is in "+c2.Key.String() {
				t.Errorf("error %v", err)
			}
			expectFollowedTo(t, original, c2.Key.String())
			expectNone(t, c3, "data")
			expectKept(t, c2.Cluster, made)
		})
	}
}

func TestTheNextLeaderEnlargesACopyThatTheLastOneDidNot(t *testing.T) {
	namespace, c2, _ := engaged(t)
	_, original, _ := copied(t, c2)
	bind(t, source, original)
	bind(t, c2.Cluster, original)
	c2.Disengage()
	resize(t, original, "2Gi")
	nextLeader(t, namespace)
	waitForSize(t, c2.Cluster, original, "2Gi")
}

// TestTheNextLeaderTakesBackACopyThatKeepsAPodForNothing has a leader that makes a copy in c2, and no PodChaperon. Then
// c2 has no room any more.
func TestTheNextLeaderTakesBackACopyThatKeepsAPodForNothing(t *testing.T) {
	t.Parallel()
	namespace, c2, c3 := engaged(t)
	pod, original, made := copied(t, c2)
	next, toC3 := nextLeader(t, namespace)
	waitUntilItMayGo(t, next, pod, toC3)
	waitForDeletion(t, c2.Cluster, made)
	expectFollowedTo(t, original, "")
	env.Must(t, next.Ensure(t.Context(), pod, toC3.Target)) // Although a finalizer holds the copy in c2.
	expectFollowedTo(t, original, c3.Key.String())
	env.RemoveFinalizers(t, c2.Cluster, made)
	expectKept(t, c3.Cluster, find(t, c3, "data"))
}

// TestTheNextLeaderKeepsACopyThatAnotherPodUses has another pod wait in c2 with the claim.
func TestTheNextLeaderKeepsACopyThatAnotherPodUses(t *testing.T) {
	t.Parallel()
	namespace, c2, c3 := engaged(t)
	pod, original, made := copied(t, c2)
	createFollowed(t, namespace, "free")
	other := podWith(namespace, "free")
	waitForObjection(t, other, c2, "")
	mustEnsure(t, other, c2)
	chaperon := env.Chaperon(namespace, "db-1", sourceID, c2.Key)
	chaperon.Spec = pod.Spec
	env.Create(t, c2.Cluster, chaperon)
	next, toC3 := nextLeader(t, namespace)
	env.Eventually(t, func(context.Context) error {
		_ = next.Objection(pod, toC3.Target, nil)
		return isFree(next.Objection(other, toC3.Target, nil))
	})
	expectKept(t, c2.Cluster, made)
	expectFollowedTo(t, original, c2.Key.String())
	expectNone(t, c3, "data")
}
