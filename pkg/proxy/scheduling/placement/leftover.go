package placement

import (
	"context"
	"fmt"
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

// leftoverSlack is the time that the target's garbage collector and kubelet have beyond the grace period of a delegate,
// if the target does not let the source look.
const leftoverSlack = 10 * time.Second

// leftover is a delegate that may run although its PodChaperon is gone: somebody in the target deleted the PodChaperon
// in the background, or changed its labels. The target's garbage collector ends the delegate later, with its grace
// period. If we asked for the end of the delegate, its manager usually deleted the PodChaperon after it. But somebody
// else may have been faster. Feedback looks in the same way for proxies that are bound.
type leftover struct {
	target   *Target
	chaperon *v1alpha1.PodChaperon // as it was last seen
	since    time.Time
}

// leavesDelegate says whether a delegate may run, or may yet begin, after its PodChaperon has gone. Whoever deletes the
// PodChaperon in the foreground waits for the end of the delegate.
func leavesDelegate(last *v1alpha1.PodChaperon) bool {
	return last.DeletionTimestamp.IsZero() && !childless(last) && !Finished(last)
}

// leftoverEnded returns nil if no delegate of the proxy is left over in a reachable target. Otherwise the pod is placed
// nowhere now, and the next attempt looks again.
func (p *Placer) leftoverEnded(ctx context.Context, proxy *corev1.Pod) error {
	left := p.Delegates.leftoverOf(proxy.UID)
	if left == nil || !left.target.Reachable() {
		return nil
	}
	runs, err := p.leftoverRuns(ctx, proxy, left)
	switch {
	case err != nil:
		return fmt.Errorf("looking whether the delegate %q in %s has ended, whose PodChaperon was deleted: %w",
			left.chaperon.Name, left.target.Name(), err)
	case runs:
		return fmt.Errorf("the PodChaperon of delegate %q in %s was deleted: the pod is placed when the delegate has "+
			"ended, or when you delete it there", left.chaperon.Name, left.target.Name())
	}
	p.Delegates.forgetLeftover(proxy.UID, left)
	return nil
}

// leftoverRuns says whether a delegate that is left over may run, or may yet begin.
func (p *Placer) leftoverRuns(ctx context.Context, proxy *corev1.Pod, left *leftover) (bool, error) {
	waited := p.clock.Since(left.since)
	if _, asked := ending.Asked(left.chaperon); asked {
		runs, err := left.target.HasPod(ctx, client.ObjectKeyFromObject(left.chaperon))
		return runs, ignoreForbidden(err)
	}
	// Perhaps only the labels are gone.
	err := remove(ctx, left.target, left.chaperon,
		client.Preconditions{UID: &left.chaperon.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if err != nil && !apierrors.IsConflict(err) {
		return false, err
	}
	if len(left.chaperon.Status.Conditions) == 0 && waited < timeouts.ManagerPatience {
		return true, nil // The target's manager may be creating the delegate.
	}
	runs, err := left.target.HasPod(ctx, client.ObjectKeyFromObject(left.chaperon))
	if apierrors.IsForbidden(err) {
		grace := ptr.Deref(proxy.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
		return waited < time.Duration(grace)*time.Second+leftoverSlack, nil
	}
	return runs, err
}

// ignoreForbidden returns nil if the target does not let the source look.
func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

func (d *Delegates) leftoverOf(proxy types.UID) *leftover {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if known, ok := d.byProxy[proxy]; ok {
		return known.left
	}
	return nil
}

func (d *Delegates) forgetLeftover(proxy types.UID, left *leftover) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.byProxy[proxy]; ok && known.left == left {
		known.left = nil
		d.tidy(proxy, known)
	}
}
