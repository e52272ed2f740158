package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// leftover is a delegate that may run although its PodChaperon is gone: somebody in the target deleted the PodChaperon
// in the background, or changed its labels. The target's garbage collector ends the delegate later, with its grace
// period. Feedback waits in the same way for the delegates of bound proxies.
type leftover struct {
	target   *Target
	chaperon *v1alpha1.PodChaperon // as it was last seen
	since    time.Time
}

// LeftoverError says that a pod is not placed yet, because an earlier delegate of the pod may run in another target,
// without a PodChaperon.
type LeftoverError struct {
	Target, Delegate string
	// Cause is the error of looking whether the delegate has ended, or nil.
	Cause error
}

// Error says what the pod waits for.
func (e *LeftoverError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("looking whether the delegate %q in %s has ended, which has no PodChaperon: %v",
			e.Delegate, e.Target, e.Cause)
	}
	return fmt.Sprintf("the PodChaperon of delegate %q in %s was deleted: the pod is placed when that delegate has "+
		"ended, or when you delete it there by force", e.Delegate, e.Target)
}

// Unwrap returns the answer of the target's API server, or nil.
func (e *LeftoverError) Unwrap() error { return e.Cause }

// leavesDelegate says whether a delegate may run, or may yet begin, after its PodChaperon has gone. Whoever deletes the
// PodChaperon in the foreground waits for the end of the delegate, if there was one.
func leavesDelegate(last *v1alpha1.PodChaperon) bool {
	awaited := slices.Contains(last.Finalizers, metav1.FinalizerDeleteDependents) && !mayBeUnderWay(last)
	return !awaited && !childless(last) && !Finished(last)
}

// mayBeUnderWay says whether the target's manager may be creating the delegate, as far as the PodChaperon shows.
func mayBeUnderWay(last *v1alpha1.PodChaperon) bool {
	_, asked := ending.Asked(last) // The manager orders the creation and the end.
	return len(last.Status.Conditions) == 0 && !asked
}

// leave notes that the target's cache shows a PodChaperon of the proxy no more.
func (known *record) leave(t *Target, last *v1alpha1.PodChaperon, now time.Time) {
	if !known.attempted || known.concluded || !leavesDelegate(last) {
		return // The proxy is bound, or gone, or there is nothing to wait for.
	}
	known.stay(t)
	known.left = append(known.left, leftover{target: t, chaperon: last, since: now})
}

// stay forgets what a target may have left over.
func (known *record) stay(t *Target) {
	known.left = slices.DeleteFunc(known.left, func(l leftover) bool { return l.target == t })
}

// leftoversEnded returns nil if no delegate of the proxy is left over in another reachable target. In the same target,
// its manager makes the next delegate of the name when the one before has ended.
func (p *Placer) leftoversEnded(ctx context.Context, proxy *corev1.Pod, t *Target) error {
	for _, left := range p.Delegates.leftovers(proxy.UID, t) {
		runs, err := p.mayRun(ctx, proxy, left)
		if runs || err != nil {
			return &LeftoverError{Target: left.target.Name(), Delegate: left.chaperon.Name, Cause: err}
		}
		p.Delegates.forgetLeftover(proxy.UID, left)
	}
	return nil
}

// mayRun says whether a delegate that is left over may run, or may yet begin. Perhaps the PodChaperon has only lost its
// labels, so it is deleted.
func (p *Placer) mayRun(ctx context.Context, proxy *corev1.Pod, left leftover) (bool, error) {
	err := remove(ctx, left.target, left.chaperon,
		client.Preconditions{UID: &left.chaperon.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsForbidden(err) {
		return false, err
	}
	underWay := mayBeUnderWay(left.chaperon)
	waited := p.clock.Since(left.since)
	grace := time.Duration(ptr.Deref(proxy.Spec.TerminationGracePeriodSeconds,
		corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
	if underWay {
		grace += timeouts.ManagerPatience
	}
	delegate := client.ObjectKeyFromObject(left.chaperon)
	runs, err := ending.MayRun(ctx, left.target.Target, delegate, waited >= grace+ending.Slack)
	return runs || underWay && waited < timeouts.ManagerPatience, err
}

// leftovers returns what may be left over of a proxy in reachable targets other than this one. A target that has
// another PodChaperon of the proxy has its delegate, and not one that is left over.
func (d *Delegates) leftovers(proxy types.UID, t *Target) []leftover {
	d.mu.RLock()
	defer d.mu.RUnlock()
	known, ok := d.byProxy[proxy]
	if !ok {
		return nil
	}
	var all []leftover
	for _, l := range known.left {
		if l.target.NodeName == t.NodeName || !l.target.Reachable() || known.uncertain == l.target {
			continue
		}
		next := known.chaperons[l.target]
		if next == nil || childless(next) || !known.living(next) && !known.ending(next) {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b leftover) int { return strings.Compare(a.target.NodeName, b.target.NodeName) })
	return all
}

// forgetLeftover notes that a delegate that was left over has ended.
func (d *Delegates) forgetLeftover(proxy types.UID, left leftover) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.byProxy[proxy]; ok {
		known.left = slices.DeleteFunc(known.left, func(l leftover) bool { return l == left })
		d.tidy(proxy, known)
	}
}
