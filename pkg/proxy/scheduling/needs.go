package scheduling

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// Follower makes the objects that pods refer to follow them. It must be safe for concurrent use.
type Follower interface {
	// Missing returns a *needs.MissingError if the source cluster lacks what the pod cannot start without, as far as is
	// known. It reads memory only. When that changes, Scheduler.Appeared is to be called.
	Missing(pod *corev1.Pod) error
	// Objection says, for users to read, why the pod cannot start in the target: it lacks an object that is not copied
	// there. It is empty if the pod can start, as far as is known. What Release can take back where the pod is now does
	// not count; from is nil if the pod is nowhere. It reads memory only, and is asked for pods with claims alone. When
	// that changes, Scheduler.Appeared is to be called.
	Objection(pod *corev1.Pod, target, from *engage.Target) string
	// Ensure returns nil once the objects that the pod refers to are in the target. It returns a *needs.MissingError if
	// the source cluster lacks one, and a *needs.RefusedError if the target does not take one. After any other error it
	// may be called again.
	Ensure(ctx context.Context, pod *corev1.Pod, target *engage.Target) error
	// MayRelease returns an error if Release would fail, as far as API servers say: other pods use what it would take
	// back, for instance.
	MayRelease(ctx context.Context, pod *corev1.Pod, from *engage.Target) error
	// Release takes back at once what keeps the pod in a target that has no delegate of it any more. After an error,
	// the pod may have to go there again. It is called for pods with claims alone.
	Release(ctx context.Context, pod *corev1.Pod, from *engage.Target) error
	// Refused notes that the target was given up for the pod after Ensure was called. What keeps the pod there for no
	// other reason is taken back later. It reads memory only, and is called for pods with claims alone.
	Refused(pod *corev1.Pod, target *engage.Target)
}

// noFollower is the Follower of a scheduler without one.
type noFollower struct{}

// Missing finds that nothing is missing.
func (noFollower) Missing(*corev1.Pod) error { return nil }

// Objection has none.
func (noFollower) Objection(_ *corev1.Pod, _, _ *engage.Target) string { return "" }

// MayRelease returns nil.
func (noFollower) MayRelease(context.Context, *corev1.Pod, *engage.Target) error { return nil }

// Release does nothing.
func (noFollower) Release(context.Context, *corev1.Pod, *engage.Target) error { return nil }

// Ensure does nothing.
func (noFollower) Ensure(context.Context, *corev1.Pod, *engage.Target) error { return nil }

// Refused does nothing.
func (noFollower) Refused(*corev1.Pod, *engage.Target) {}

// needsAppeared is the event of an appearance.
const needsAppeared fwk.EventResource = "needs.v1alpha1.multicluster.admiralty.io"

// appearance of an object that pods of its namespace may have been waiting for. Without a ref, claims may be in targets
// in which they were not.
type appearance struct {
	namespace string
	ref       needs.Ref
}

// Appeared wakes the pods of a namespace that were rejected because they referred to this object, which did not exist,
// and may now; with an empty ref, those with claims.
func (s *Scheduler) Appeared(namespace string, ref needs.Ref) {
	s.plugin.waker.event(needsAppeared, appearance{namespace, ref})
}

func (p *plugin) afterNeedsAppeared(_ klog.Logger, pod *corev1.Pod, _, object any) (fwk.QueueingHint, error) {
	a, ok := object.(appearance)
	if !ok {
		return fwk.Queue, fmt.Errorf("an appearance is a %T", object)
	}
	if !a.concerns(pod) || p.lacks(pod) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

func (a appearance) concerns(pod *corev1.Pod) bool {
	if a.namespace != pod.Namespace {
		return false
	}
	if a.ref == (needs.Ref{}) {
		return hasClaims(pod)
	}
	return slices.ContainsFunc(needs.Followed(pod), func(n needs.Need) bool { return n.Ref == a.ref })
}

// lacks says whether the source lacks what the pod cannot start without.
func (p *plugin) lacks(pod *corev1.Pod) bool { return p.follower.Missing(pod) != nil }

// hasClaims says whether the pod refers to a PersistentVolumeClaim, as most do not.
func hasClaims(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
}
