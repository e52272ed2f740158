package feedback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	asking "github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// lookAtEnd is how often the target is asked whether a delegate without a PodChaperon has ended. The source cannot
	// watch pods there.
	lookAtEnd = 2 * time.Second
	endSlack  = asking.Slack
)

// reconciler reconciles the proxies in one engaged target.
type reconciler struct {
	options  Options
	feedback *Feedback
	target   *engage.Target
	asks     asks
	ends     *ends
	// These are the target's budgets: of warnings, of writes of annotations and statuses, and of reads of the source's
	// API server for which the target gives cause.
	budget, annotations, statuses, reads *rate.Limiter
}

// Reconcile reads a proxy and its PodChaperons in the target from caches, decides, and acts. The objects belong to the
// caches, so nothing here changes them.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if !r.target.Reachable() {
		return reconcile.Result{}, nil
	}
	s, err := r.readState(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := decide(s)
	err = r.carryOut(ctx, request.NamespacedName, s.proxy, &p)
	return reconcile.Result{RequeueAfter: p.wait}, err
}

func (r *reconciler) readState(ctx context.Context, key types.NamespacedName) (state, error) {
	s := state{target: r.target.Key, nodeName: r.target.NodeName, now: r.options.Clock.Now()}
	s.forced = r.feedback.wasForced
	s.changes, s.spares, s.wanted = r.target.Changes(), r.target.Spares(), r.options.Annotations
	s.keys, _ = r.options.Keys() // Whoever places pods says that there are none. What is signed later counts as old.
	pod := &corev1.Pod{}
	switch err := r.options.Client.Get(ctx, key, pod, client.UnsafeDisableDeepCopy); {
	case err == nil && translate.IsProxy(pod):
		s.proxy = pod
		s.warned, s.began = r.feedback.warned.of(pod, r.target.Key)
	case apierrors.IsNotFound(err):
		r.feedback.warned.forget(key)
	case client.IgnoreNotFound(err) != nil:
		return s, fmt.Errorf("getting the proxy: %w", err)
	}
	chaperons := &v1alpha1.PodChaperonList{}
	err := r.target.Client.List(
		ctx,
		chaperons,
		client.MatchingFields{engage.IndexParent: key.String()},
		client.UnsafeDisableDeepCopy,
	)
	if err = r.unlessForbidden(err, s); err != nil {
		return s, fmt.Errorf("listing the proxy's PodChaperons: %w", err)
	}
	s.chaperons = chaperons.Items
	s.asked = r.asks.forProxy(key, s)
	s.last = r.ends.of(key, s)
	s.vet, err = r.vetter(ctx, s.proxy)
	return s, err
}

// unlessForbidden returns nil if the target does not let the source read a namespace where it needs nothing. So it is
// if the proxy is not bound there, because the source could end nothing. Or the target says that the source has nothing
// there any more. Otherwise nobody knows whether the delegate runs.
func (r *reconciler) unlessForbidden(err error, s state) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if s.proxy == nil || s.proxy.Spec.NodeName != s.nodeName || r.target.HasNothingIn(s.proxy.Namespace) {
		return nil
	}
	r.feedback.recordDelegateUnclear(s.proxy, fmt.Sprintf("the target does not let this cluster read namespace %q: "+
		"give the namespace to its ClusterSource; or delete this pod by force if its delegate is gone",
		s.proxy.Namespace))
	return err
}

// carryOut carries out a plan. A failure does not prevent the other actions. If a removal has to wait, it notes this in
// the plan.
func (r *reconciler) carryOut(ctx context.Context, key types.NamespacedName, proxy *corev1.Pod, p *plan) error {
	var errs []error
	for _, e := range p.endings {
		errs = append(errs, r.endDelegate(ctx, key, e, p))
	}
	if p.prove != nil {
		errs = append(errs, r.prove(ctx, proxy, p.prove))
	}
	if p.change != nil {
		errs = append(errs, r.change(ctx, proxy, p))
	}
	if p.annotations != nil {
		errs = append(errs, r.annotate(ctx, proxy, p))
	}
	if p.status != nil {
		errs = append(errs, r.show(ctx, proxy, p))
	}
	if p.warnings != nil {
		r.warn(proxy, p)
	}
	if p.overdue {
		r.feedback.recordDelegateUnclear(proxy, fmt.Sprintf("its delegate %q has not ended in the target: look at it, "+
			"and at its node there", translate.DelegateName(proxy)))
	}
	if p.removal != nil {
		runs, err := r.surplus(proxy, p.removal), error(nil)
		if !runs {
			runs, err = r.delegateRuns(ctx, proxy, p.removal)
		}
		if !runs && err == nil {
			runs, err = r.removeProxy(ctx, proxy, p.removal)
		}
		if runs && err == nil {
			p.waitFor(lookAtEnd)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// mayRead says whether the budget allows a read of the source's API server. Otherwise it notes in the plan to look
// later.
func (r *reconciler) mayRead(p *plan) bool {
	if r.reads.AllowN(r.options.Clock.Now(), 1) {
		return true
	}
	p.waitFor(readLater)
	return false
}

func (r *reconciler) endDelegate(ctx context.Context, key types.NamespacedName, e ending, p *plan) error {
	parent := gate.ParentOf(e.chaperon)
	if e.ifOrphan {
		if !r.mayRead(p) {
			return nil
		}
		pod := corev1.SchemeGroupVersion.WithKind("Pod")
		uid, err := liveUID(ctx, r.options.APIReader, pod, parent.Key)
		if err != nil {
			return fmt.Errorf("looking for the proxy of PodChaperon %q: %w", e.chaperon.Name, err)
		}
		if uid == parent.UID {
			return nil // The cache lags, and its event follows.
		}
	}
	if e.overdue {
		return r.askGarbageCollector(ctx, e)
	}
	if !e.asked {
		if err := r.askManager(ctx, e); err != nil {
			return err
		}
	}
	r.asks.remember(key, askFor(e, r.options.Clock.Now()))
	return nil
}

// askManager asks the target's manager to delete the delegate and then the PodChaperon. So the PodChaperon outlives the
// delegate, and shows the delegate's end. One that was withdrawn may have got a node meanwhile. Then its PodChaperon
// has changed, and the API server answers with a conflict.
func (r *reconciler) askManager(ctx context.Context, e ending) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var err error
	if e.withdrawn {
		err = client.IgnoreNotFound(asking.AskAsSeen(ctx, r.target.Client, e.chaperon))
	} else {
		err = ignoreGone(asking.Ask(ctx, r.target.Client, e.chaperon, e.grace))
	}
	if err != nil {
		return fmt.Errorf("asking for the deletion of the delegate of PodChaperon %q: %w", e.chaperon.Name, err)
	}
	return nil
}

// askGarbageCollector makes the target's garbage collector end the delegate. One that was withdrawn may have got a node
// meanwhile: then its PodChaperon has changed.
func (r *reconciler) askGarbageCollector(ctx context.Context, e ending) error {
	chaperon, exactly := e.chaperon, client.Preconditions{UID: &e.chaperon.UID}
	if e.withdrawn {
		exactly.ResourceVersion = &chaperon.ResourceVersion
	}
	log.FromContext(ctx).Info(
		"A delegate has not ended in time; leaving it to the target's garbage collector",
		"delegate", chaperon.Name, "time", managerPatience)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	foreground := client.PropagationPolicy(metav1.DeletePropagationForeground)
	err := r.target.Client.Delete(ctx, chaperon, foreground, exactly)
	if err := ignoreGone(err); err != nil {
		return fmt.Errorf("deleting PodChaperon %q: %w", chaperon.Name, err)
	}
	return nil
}

// removeProxy deletes a proxy, unless its PodChaperon is found. The cache may never show that one: if it goes before
// the cache lists anew, there is no event. A missing PodChaperon counts only once the target has confirmed that it was
// not set back, also if its end was asked for.
func (r *reconciler) removeProxy(ctx context.Context, proxy *corev1.Pod, removal *removal) (found bool, err error) {
	// If the target does not allow the namespace, we have no right to read there, and the target holds nothing of ours.
	if removal.of == "" && r.target.Allows(proxy.Namespace) {
		if removal.ifGone {
			found, err := r.findChaperon(ctx, proxy)
			gone := apierrors.IsForbidden(err) && r.target.ConfirmsNothingIn(ctx, proxy.Namespace)
			if found || err != nil && !gone {
				return found, err
			}
		}
		if err := r.target.Confirm(ctx); err != nil {
			return false, fmt.Errorf("confirming that the PodChaperon was deleted: %w", err)
		}
	}
	if removal.of != "" {
		if replaced, err := r.replaced(ctx, proxy, removal.of); replaced || err != nil {
			return false, err
		}
	}
	return false, r.feedback.remove(ctx, proxy, removal)
}

// delegateRuns says whether the delegate of a terminating proxy may run, although it has no PodChaperon any more. If
// the target does not let us look, the delegate has the proxy's grace period.
func (r *reconciler) delegateRuns(ctx context.Context, proxy *corev1.Pod, removal *removal) (bool, error) {
	if !removal.ifEnded || !r.target.Allows(proxy.Namespace) {
		return false, nil
	}
	name := translate.DelegateName(proxy)
	overdue := r.options.Clock.Now().After(proxy.DeletionTimestamp.Add(endSlack))
	delegate := types.NamespacedName{Namespace: proxy.Namespace, Name: name}
	runs, err := asking.MayRun(ctx, r.target, delegate, overdue)
	if runs && overdue {
		r.feedback.recordDelegateUnclear(proxy, fmt.Sprintf("its delegate %q exists in the target, and its "+
			"PodChaperon does not: delete the delegate there; or delete this pod by force if it is gone", name))
	}
	return runs, err
}

// surplus says whether a proxy must not go yet, because another target may have a delegate of it. That target has a
// PodChaperon of the proxy, and is not lost. It got the pod while the first target was out of reach, or the other way
// round. Its workers end the delegate. Whoever gets the proxy's name next must not run beside it.
//
// A target can show any PodChaperon again that it had once. So the wait has an end: see surplusEnds.
func (r *reconciler) surplus(proxy *corev1.Pod, removal *removal) bool {
	if ptr.Deref(removal.grace, 1) != 0 {
		return false
	}
	now := r.options.Clock.Now()
	beside := r.options.PlacedBeside(proxy.UID, r.target.NodeName)
	other := r.feedback.ends.elsewhere(proxy, r.target, beside, func(engaged time.Time) bool {
		return now.Before(surplusEnds(proxy, engaged))
	})
	if other == nil {
		return false
	}
	if d := proxy.DeletionTimestamp; d != nil && now.After(d.Add(endSlack)) {
		r.feedback.recordDelegateUnclear(proxy, fmt.Sprintf("its delegate %q has not ended in %s, where it was "+
			"placed, too: delete the delegate there", translate.DelegateName(proxy), targetkind.Name(other.Key)))
	}
	return true
}

// surplusEnds returns until when a proxy waits for its delegate in another target that was engaged at a time. From then
// on, or from the proxy's deletion on, the target has time to end the delegate: first its manager, then its garbage
// collector. Until the target was engaged, the delegate ran beside the proxy's own one anyway.
func surplusEnds(proxy *corev1.Pod, engaged time.Time) time.Time {
	grace := translate.GracePeriod(&proxy.Spec)
	end := engaged.Add(grace)
	if d := proxy.DeletionTimestamp; d != nil && d.After(end) {
		end = d.Time
	}
	return end.Add(managerPatience + grace + endSlack)
}

// replaced says whether the target has another PodChaperon for the proxy than the cache: the proxy was withdrawn, and
// placed there again. The event of the other one follows.
func (r *reconciler) replaced(ctx context.Context, proxy *corev1.Pod, cached types.UID) (bool, error) {
	kind := v1alpha1.GroupVersion.WithKind("PodChaperon")
	key := types.NamespacedName{Namespace: proxy.Namespace, Name: translate.DelegateName(proxy)}
	uid, err := liveUID(ctx, r.target.APIReader, kind, key)
	if err != nil {
		return false, fmt.Errorf("looking whether the PodChaperon was replaced: %w", err)
	}
	return uid != "" && uid != cached, nil
}

// remove deletes a proxy. If nobody deleted it in the source, the cached one must be the newest: the proxy may have
// finished. Otherwise its event follows.
func (f *Feedback) remove(ctx context.Context, proxy *corev1.Pod, removal *removal) error {
	if removal.status != nil {
		failed, err := f.patchStatus(ctx, proxy, *removal.status)
		if err != nil {
			return ignoreGone(err)
		}
		proxy = failed
	}
	var version *string
	if removal.message != "" {
		version = &proxy.ResourceVersion
	}
	if err := f.deletePod(ctx, proxy, removal.grace, version); err != nil {
		return ignoreGone(err)
	}
	if removal.message != "" {
		f.recordDelegateLost(proxy, removal.message)
	}
	return nil
}

// liveUID reads the UID of an object from the API server. It returns an empty UID if there is no such object.
func liveUID(
	ctx context.Context,
	reader client.Reader,
	kind schema.GroupVersionKind,
	key types.NamespacedName,
) (types.UID, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	err := reader.Get(ctx, key, object)
	return object.UID, client.IgnoreNotFound(err)
}

// ignoreGone returns nil for errors which say that the object is gone, or that another object has its name.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
