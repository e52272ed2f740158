package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// skew is how much the clocks of the source's API server and of this process may differ.
const skew = 10 * time.Second

const (
	// answersWithin is how long a target has to say whether it has a delegate that nobody has seen.
	answersWithin = time.Second
	// unaskedFor is how long a target that has not answered in time is not asked about other pods, so that they do not
	// wait for it one after another.
	unaskedFor = 10 * time.Second
)

// leftover is a delegate that may run although its PodChaperon is gone: somebody in the target deleted the PodChaperon
// in the background, or changed its labels. The target's garbage collector ends the delegate later, with its grace
// period. Feedback waits in the same way for the delegates of bound proxies.
type leftover struct {
	target *Target
	// chaperon is the PodChaperon as it was last seen. Without a UID, only its name is known.
	chaperon *v1alpha1.PodChaperon
	// underWay says that the target's manager may have been creating the delegate when the PodChaperon went.
	underWay bool
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

// leavesDelegate says whether a delegate may run, or may yet begin, after its PodChaperon has gone. Whoever deleted the
// PodChaperon in the foreground may have deleted it in the background later.
func leavesDelegate(last *v1alpha1.PodChaperon) bool { return !childless(last) && !Finished(last) }

// mayBeUnderWay says whether the target's manager may be creating the delegate, as far as the PodChaperon shows.
func mayBeUnderWay(last *v1alpha1.PodChaperon) bool {
	return len(last.Status.Conditions) == 0 && !translate.ToEnd(last) // The manager orders the creation and the end.
}

// leave notes that the target's cache shows a PodChaperon of the proxy no more. Nobody waits if the proxy is bound or
// gone. Before the first attempt of this process, which asks all targets, nobody knows whether it is.
func (known *record) leave(t *Target, last *v1alpha1.PodChaperon, now time.Time) {
	if !known.attempted || known.concluded || !leavesDelegate(last) {
		return
	}
	known.stay(t)
	known.left = append(known.left, leftover{target: t, chaperon: last, underWay: mayBeUnderWay(last), since: now})
}

// stay forgets what a target may have left over.
func (known *record) stay(t *Target) {
	known.left = slices.DeleteFunc(known.left, func(l leftover) bool { return l.target == t })
}

// find asks those targets where a delegate of the proxy may be left over that nobody saw being left, once, and all at
// the same time.
func (p *Placer) find(ctx context.Context, proxy *corev1.Pod, engaged []*Target) {
	began := p.clock.Now()
	targets := p.Delegates.unasked(proxy, engaged)
	all := len(targets)
	targets = slices.DeleteFunc(targets, func(t *Target) bool { return t.silent(began) })
	if len(targets) == 0 {
		return
	}
	var asked sync.WaitGroup
	for _, t := range targets {
		asked.Go(func() { p.findIn(ctx, proxy, t) })
	}
	asked.Wait()
	if len(targets) == all {
		p.Delegates.noteAsked(proxy.UID, began)
	}
}

// findIn notes whether a target has a delegate of the proxy. One that does not let the source look, or does not answer
// soon, counts as one that has none: no pod waits for the slowest target. Of that one, the next pods ask nothing for a
// while.
func (p *Placer) findIn(ctx context.Context, proxy *corev1.Pod, t *Target) {
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	named := &v1alpha1.PodChaperon{}
	named.Namespace, named.Name = proxy.Namespace, translate.DelegateName(proxy)
	const overdue = true
	runs, err := ending.MayRun(ctx, t.Target, client.ObjectKeyFromObject(named), overdue)
	if parent.Err() == nil {
		t.noteAnswer(ctx.Err() == nil, p.clock.Now())
	}
	if err != nil || !runs {
		return
	}
	if found, err := live(ctx, t, named); err == nil && ProxyUID(found) == proxy.UID {
		named = found // Perhaps it has lost its labels.
	}
	p.Delegates.noteLeftover(proxy.UID, leftover{target: t, chaperon: named, since: p.clock.Now()})
}

// leftoversEnded returns nil if no delegate of the proxy is left over in another target, lost ones aside. In the same,
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
	if uid := left.chaperon.UID; uid != "" {
		err := remove(ctx, left.target, left.chaperon,
			client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsForbidden(err) {
			return false, err
		}
	}
	// Without a PodChaperon, a delegate usually lasts no longer than this.
	waited, longest := p.clock.Since(left.since), translate.GracePeriod(&proxy.Spec)+ending.Slack
	if left.underWay {
		longest += timeouts.ManagerPatience
	}
	delegate := client.ObjectKeyFromObject(left.chaperon)
	runs, err := ending.MayRun(ctx, left.target.Target, delegate, waited >= longest)
	return runs || left.underWay && waited < timeouts.ManagerPatience, err
}

// leftovers returns what may be left over of a proxy in targets that are not lost, but this one. A target that has
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
		if l.target.NodeName == t.NodeName || l.target.Lost() || known.doubts[l.target.NodeName].target == l.target {
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

// unasked returns the reachable targets where a delegate of the proxy may be left over, although no cache ever showed
// its PodChaperon. Somebody may have deleted the PodChaperon in the background before the cache listed: while the
// target was lost, or while nobody led. There are none while a target has a PodChaperon of the proxy: another target
// may lead to the same cluster, and so show its delegate.
func (d *Delegates) unasked(proxy *corev1.Pod, engaged []*Target) []*Target {
	if d.Holder(proxy.UID) != nil {
		return nil
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	var asked time.Time
	if known, ok := d.byProxy[proxy.UID]; ok {
		asked = known.asked
	}
	var all []*Target
	for _, t := range engaged {
		if t.Reachable() && t.Allows(proxy.Namespace) &&
			t.Since.After(asked) && t.Since.Add(skew).After(proxy.CreationTimestamp.Time) {
			all = append(all, t)
		}
	}
	return all
}

// noteAsked notes when all targets were asked for a delegate of the proxy.
func (d *Delegates) noteAsked(proxy types.UID, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.recordOf(proxy); !known.concluded {
		known.asked = now
	}
}

// noteLeftover notes that a delegate was found without a PodChaperon, while somebody waits for the proxy.
func (d *Delegates) noteLeftover(proxy types.UID, left leftover) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.recordOf(proxy)
	if !known.concluded && !left.target.Gone() {
		known.stay(left.target)
		known.left = append(known.left, left)
	}
	d.tidy(proxy, known)
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
