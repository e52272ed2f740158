package target

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// checksPerSummary is how many health checks of a target that is held are answered by its renewals, and one by its
	// ClusterSummary.
	checksPerSummary = 6
	// leaseInterval is how often a Lease is looked for in a target that had none: its manager may be updated. Or
	// somebody deleted the namespace of Leases. When it is there again, the target makes the Lease within 30 s, and
	// fences after a minute.
	leaseInterval = 15 * time.Second
	maxHolder     = 80
)

// leases are the Leases of a target. Nothing in them passes the gate: package hold and package awake decide about them.
type leases struct {
	client client.Client
	// grant is the name of the SourceGrant. granted says that it exists.
	grant   string
	granted bool
	// own is the Lease of this source, or empty if the target makes none.
	own types.NamespacedName
}

// leases finds the Leases of this source. An older target has none, and an administrator can do without.
func (d *dialer) leases(ctx context.Context) (leases, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*d.deadline())
	defer cancel()
	c, err := client.New(d.config, client.Options{HTTPClient: d.clients, Scheme: d.scheme, Mapper: d.mapper})
	if err != nil {
		return leases{}, fmt.Errorf("making a client for Leases: %w", err)
	}
	found := leases{client: c}
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(wire.Reading(ctx), review); err != nil {
		return found, ignoreAbsent(fmt.Errorf("asking for our user name: %w", err))
	}
	grant := &v1alpha1.SourceGrant{}
	found.grant = translate.SourceGrantName(review.Status.UserInfo.Username)
	if err := c.Get(ctx, types.NamespacedName{Name: found.grant}, grant); err != nil {
		return found, ignoreAbsent(fmt.Errorf("getting the SourceGrant: %w", err))
	}
	found.granted = true
	if lease := grant.Status.Lease; lease != nil {
		found.own = types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
	}
	return found, nil
}

// knownEpoch is the epoch of a target, as far as this process knows, and of which one.
type knownEpoch struct {
	is int64
	of string
}

// forgetUnless forgets the epoch of another target.
func (e *knownEpoch) forgetUnless(of string) {
	if of != e.of {
		*e = knownEpoch{of: of}
	}
}

// ignoreAbsent returns nil for the answers of a target that has no such object, or does not show it.
func ignoreAbsent(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// noLeaseError says that a target lacks the Lease of this source.
type noLeaseError struct{ why string }

// Error says what is missing.
func (e *noLeaseError) Error() string { return e.why }

// lackingFor is how long a target must have lacked a Lease that it had, before this is taken for more than a moment. A
// target that gives rights anew gives one after the other.
const lackingFor = 15 * time.Second

// holdTarget takes the Lease of the target, if there is one. From then on, writes end with the hold.
func (l *loop) holdTarget(ctx, life context.Context, d *dialer, e *engagement) error {
	l.noteKnows(e.target)
	if l.options.Holds == nil || e.self { // Of a copy of this cluster, the cluster itself is another one.
		e.target.SetChanges(e.self) // Its manager is of our version.
		e.target.SetSpares(e.self)
		return nil
	}
	var err error
	err = l.persistently(ctx, func() (err error) { e.leases, err = d.leases(ctx); return err })
	if err != nil {
		return err
	}
	l.epoch.forgetUnless(e.target.ClusterID + "/" + e.leases.grant)
	request := l.request(ctx, e.leases, e.target.ClusterID)
	request.Same = func(ctx context.Context) error { return e.identity.Confirm(ctx, d.live) }
	if e.leases.own.Name == "" {
		return l.lackLease(e, request, "it makes no Lease for this source any more")
	}
	request.Wary = l.wary
	var h *hold.Hold
	err = l.persistently(ctx, func() (err error) { h, err = l.options.Holds.Acquire(ctx, life, request); return err })
	if shared := (*hold.SharedUserError)(nil); errors.As(err, &shared) {
		e.leases.own.Name, e.sharedWith = "", wire.Shorten(shared.ClusterID, maxHolder)
		log.FromContext(ctx).Info("Another cluster uses the same user in the target, so nothing protects this one "+
			"from its copies there, and no pod is fenced", "cluster", e.sharedWith)
		return nil
	}
	if err != nil && ignoreAbsent(err) == nil { // The rights on a Lease go with its namespace.
		gone := fmt.Sprintf("Lease %s is gone, or may not be used", request.Lease)
		if request.Remembered == 0 {
			return &noLeaseError{gone}
		}
		return l.lackLease(e, request, gone)
	}
	if err != nil {
		return err
	}
	l.lacking = time.Time{}
	e.hold, l.epoch.is = h, h.Epoch()
	d.fence.Until(h)
	e.target.Confirms = h.Confirm
	return l.askForFencing(ctx, e)
}

// askForFencing looks whether the target's manager fences delegates. Later looks at its Lease follow, and the target
// may answer none of them.
func (l *loop) askForFencing(ctx context.Context, e *engagement) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: e.leases.own.Namespace, Name: v1alpha1.LeaseManager}
	if err := e.leases.client.Get(ctx, key, lease); err != nil {
		err = ignoreAbsent(fmt.Errorf("getting the Lease of the target's manager: %w", err))
		if err == nil {
			l.awake.Look(nil, l.options.Clock.Now()) // An earlier engagement may have seen it.
		}
		return err
	}
	l.leasesIn = key.Namespace
	l.awake.Look(lease, l.options.Clock.Now())
	e.target.SetFences(l.fences(e))
	l.noteKnows(e.target)
	return nil
}

// lackLease is doWithoutLease, once the target has lacked the Lease for long enough.
func (l *loop) lackLease(e *engagement, request hold.Request, missing string) error {
	err := e.doWithoutLease(request, missing)
	if err == nil {
		l.lacking = time.Time{}
		return nil
	}
	now := l.options.Clock.Now()
	if l.lacking.IsZero() {
		l.lacking = now
	}
	if now.Sub(l.lacking) < lackingFor {
		return &noLeaseError{missing}
	}
	return err
}

// doWithoutLease lets the source act in a target that lacks its Lease. If the target had one, somebody has to accept
// this: PodChaperons may be missing there, too.
func (e *engagement) doWithoutLease(request hold.Request, missing string) error {
	if request.Remembered > 0 && request.Accepted != request.Remembered {
		return &hold.TurnedBackError{Remembered: request.Remembered, Missing: missing}
	}
	e.leases.own = types.NamespacedName{}
	return nil
}

// request returns the request for the target's Lease, with the epoch that the (Cluster)Target has in the cache.
func (l *loop) request(ctx context.Context, of leases, cluster string) hold.Request {
	r := hold.Request{Target: l.key, Cluster: cluster, Client: of.client, Lease: of.own, Remembered: l.epoch.is}
	target := targetkind.New(l.key)
	if err := l.options.Client.Get(ctx, l.key, target); err != nil {
		return r
	}
	if status := targetkind.Status(target); status.EpochOf == l.epoch.of {
		r.Remembered = max(r.Remembered, status.Epoch)
	}
	if accepted, err := strconv.ParseInt(target.GetAnnotations()[v1alpha1.AnnotationAcceptEpoch], 10, 64); err == nil {
		r.Accepted = accepted
	}
	return r
}

// unsafeCondition returns the condition of a target where this source must do nothing, and false for other errors.
func (l *loop) unsafeCondition(err error, w want) (metav1.Condition, bool) {
	var other *hold.OtherError
	var back *hold.TurnedBackError
	var none *noLeaseError
	switch {
	case errors.As(err, &none):
		return disconnected(v1alpha1.ReasonForbidden, fmt.Sprintf("%s does not grant what is needed: %s; helm upgrade "+
			"in the target makes it again", w.config.Host, none)), true
	case errors.As(err, &other):
		return disconnected(v1alpha1.ReasonHeldByOther, fmt.Sprintf("another manager acts in %s as this source: %q. "+
			"Nothing is done there. Was this cluster, or that one, started from a backup? Stop the one that is not to "+
			"go on. If it is the other one, then restart this manager at once: it takes over within about %s. "+
			"Without a restart it waits %s, and by then the target has stopped all pods with a shorter fence",
			w.config.Host, wire.Shorten(other.Holder, maxHolder), timeouts.HoldDuration, timeouts.HoldOfOthers)), true
	case errors.As(err, &back):
		l.epoch.is = max(l.epoch.is, back.Remembered)
		return turnedBack(back, l.key, w), true
	}
	return metav1.Condition{}, false
}

// check is a health check. Renewals say most of it, so the ClusterSummary of a target that is held is read less often.
// It also checks whether the same cluster answers. Of a ClusterSummary that the gate refuses, it returns why, and
// nothing is believed.
func (e *engagement) check(ctx context.Context) (*v1alpha1.ClusterSummary, *gate.ForgedError, error) {
	e.checks++
	e.relied = e.renewed()
	if e.relied && e.checks%checksPerSummary != 0 {
		return e.latest, nil, nil
	}
	summary, err := e.summary(ctx)
	e.relied = err != nil && isPassing(err) && e.renewed()
	if e.relied {
		return &v1alpha1.ClusterSummary{}, nil, nil // The API server answers. The next check reads it again.
	}
	seen := summary.Status.ClusterID
	invalid := invalidSummary(err)
	e.latest = nil
	switch {
	case invalid != nil:
		summary, err = &v1alpha1.ClusterSummary{}, nil
	case err == nil:
		e.latest = &v1alpha1.ClusterSummary{Status: v1alpha1.ClusterSummaryStatus{
			ClusterID: seen, KubernetesVersion: summary.Status.KubernetesVersion,
		}}
	}
	if err == nil && !e.self {
		err = e.identity.Check(seen)
	}
	return summary, invalid, err
}

// renewed says whether the target is held, and its Lease was renewed in time.
func (e *engagement) renewed() bool {
	return e.hold != nil && e.latest != nil && e.hold.Context().Err() == nil && e.hold.Overdue() == nil
}

// heard returns when the last health check, which began at a time and had no error, heard of the target.
func (e *engagement) heard(checked time.Time) time.Time {
	if e.relied {
		return e.hold.Renewed()
	}
	return checked
}

// holdEnd is the end of the hold of an engaged target. comes is closed then, and nil if there is no hold, or once the
// end was seen.
type holdEnd struct {
	comes <-chan struct{}
	seen  bool
}

// endOfHold returns the end of the engagement's hold, which nobody has seen yet.
func (e *engagement) endOfHold() holdEnd {
	if e.hold == nil {
		return holdEnd{}
	}
	return holdEnd{comes: e.hold.Context().Done()}
}

// lapsed says whether the engagement's hold has ended.
func (e *engagement) lapsed() bool { return e.hold != nil && e.hold.Context().Err() != nil }

// unsafe says whether the hold ended in a way that ends the engagement, too.
func (e *engagement) unsafe() bool {
	cause := context.Cause(e.hold.Context())
	return errors.As(cause, new(*hold.OtherError)) || errors.As(cause, new(*hold.TurnedBackError))
}

// lapse puts an engaged target out of reach whose hold has ended. It returns whether it ended in a way that ends the
// engagement, too.
func (l *loop) lapse() (unsafe bool) {
	if l.engaged == nil || !l.engaged.lapsed() {
		return false
	}
	l.options.Registry.Lapse(l.engaged.target)
	if !l.engaged.unsafe() {
		return false
	}
	l.fencing = fencingDoubtful
	l.engaged.target.SetFences(false)
	return true
}

// look looks at the Leases of an engaged target: whether its manager is awake, and whether there is one to hold by now.
// It returns whether the target has to be engaged anew. While health checks fail, it asks nothing: they would wait for
// its answer.
func (l *loop) look(ctx context.Context, w want) bool {
	now := l.options.Clock.Now()
	e := l.engaged
	l.lookAtWatches()
	if e.leases.own.Namespace == "" {
		l.awake.Look(nil, now) // An earlier engagement may have seen the Lease of a manager, and its silence.
		l.report(ctx, w, l.findingAbout(w))
		return e.leases.client != nil && l.doubts == 0 && l.leaseAppeared(ctx, now)
	}
	if e.hold != nil {
		l.epoch.is = e.hold.Epoch()
	}
	switch {
	case l.doubts > 0:
		l.awake.Miss(now)
	case l.awake.Due(now):
		l.lookAwake(ctx)
	}
	e.target.SetFences(l.fences(e))
	l.report(ctx, w, l.findingAbout(w))
	return false
}

func (l *loop) lookAwake(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.deadline())
	defer cancel()
	lease := &coordinationv1.Lease{}
	l.leasesIn = l.engaged.leases.own.Namespace
	key := types.NamespacedName{Namespace: l.leasesIn, Name: v1alpha1.LeaseManager}
	err := l.engaged.leases.client.Get(ctx, key, lease)
	now := l.options.Clock.Now()
	switch {
	case err == nil:
		l.awake.Look(lease, now)
	case ignoreAbsent(err) == nil:
		l.awake.Look(nil, now)
	default:
		l.awake.Miss(now)
	}
	l.noteKnows(l.engaged.target)
}

// noteKnows notes what the target's manager knows, as of the last look.
func (l *loop) noteKnows(target *engage.Target) {
	target.SetChanges(l.awake.Changes())
	target.SetSpares(l.awake.Spares())
}

// leaseAppeared says whether a target without a Lease has one now.
func (l *loop) leaseAppeared(ctx context.Context, now time.Time) bool {
	e := l.engaged
	if now.Sub(e.leasesSought) < leaseInterval {
		return false
	}
	e.leasesSought = now
	found, err := e.dialer.leases(ctx)
	if err != nil || found.own.Name == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, l.deadline())
	defer cancel()
	// The SourceGrant may name one that is gone.
	return found.client.Get(ctx, found.own, &coordinationv1.Lease{}) == nil
}
