package objects

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

const (
	// trustedFor is how long a written copy is assumed to exist. Nobody reports that it was deleted.
	trustedFor = 5 * time.Minute
	// refusedRetry is the delay before a target that refused a copy is asked again, unless it lacked our rights.
	refusedRetry = 2 * time.Minute
)

// link writes copies to an engaged target.
type link struct {
	follower *Follower
	life     context.Context // the context of the engagement, which no write outlives
	target   *engage.Target
	writer   *writer.Writer
	queue    engage.Queue[objectKey]
	// flights has the writes that are under way: at most one for a copy, with an outcome for all callers.
	flights singleflight.Group

	mu      sync.Mutex // guards written
	written map[objectKey]copyRecord
}

// copyRecord is what we know of a copy in the target.
type copyRecord struct {
	version  string    // of the original that was written; empty if none was
	touched  time.Time // when we last noted in the copy that a pod is about to need it
	written  time.Time
	repaired time.Time // when we last doubted that the copy is there
	refused  string    // why the target refused a change since then, as the event says
	said     time.Time // when an event last said so
}

func (l *link) recordOf(o objectKey) copyRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written[o]
}

// isNeeded says whether a proxy that scheduling can have bound to the target's node needs the object, or an Ingress
// there. Anybody who may create pods can have them name a virtual node.
func (l *link) isNeeded(o objectKey) bool {
	return l.mayHave(o.namespace) && l.follower.users.isNeeded(l.target.NodeName, o)
}

// mayHave says whether scheduling places pods of a namespace in the target.
func (l *link) mayHave(namespace string) bool {
	return l.target.Allows(namespace) && l.follower.namespaces.include(namespace)
}

// forgetCopy forgets the record of a copy that no pod there needs.
func (l *link) forgetCopy(o objectKey) {
	if l.isNeeded(o) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.written, o)
}

// ensure ensures the copy, and that it stays until the pod that is about to be placed exists. A write that began before
// this call does not count: it may have read an older object, and may not have touched the copy.
func (l *link) ensure(ctx context.Context, o objectKey) error {
	wanted := func() bool {
		version, _ := l.follower.watches.version(o)
		needed := l.isNeeded(o)
		return due(l.recordOf(o), version, needed, l.follower.options.Clock.Now())
	}
	for again := false; wanted(); again = true {
		joined, err := l.joinOrWrite(ctx, o, func(ctx context.Context) error {
			if !wanted() { // Another write may have just ended.
				return nil
			}
			return l.writeCopy(ctx, o, true)
		})
		if !joined || again && err != nil { // The second write began after this call.
			return err
		}
	}
	return nil
}

// due says whether a copy must be written, or at least touched, for a pod that is about to be placed. An empty version
// is not known yet. Nobody deletes a copy that a living pod there needs.
func due(r copyRecord, version string, needed bool, now time.Time) bool {
	return r.version == "" || version != "" && r.version != version || now.Sub(r.written) >= trustedFor ||
		!needed && now.Sub(r.touched) >= timeouts.TouchedFor
}

// outdated says whether pods there need the copy, and it is absent, as far as is known, or has another version.
func (l *link) outdated(o objectKey) bool {
	version, exists := l.follower.watches.version(o)
	return exists && l.isNeeded(o) && l.recordOf(o).version != version
}

// rewriteAll enqueues all copies that pods in the target need, whatever is known of them.
func (l *link) rewriteAll() {
	l.mu.Lock()
	clear(l.written)
	l.mu.Unlock()
	for _, o := range l.follower.users.neededOn(l.target.NodeName) {
		if l.mayHave(o.namespace) {
			l.queue.Add(o)
		}
	}
}

// refresh writes a copy that is outdated. A later change enqueues it again.
func (l *link) refresh(ctx context.Context, o objectKey) (reconcile.Result, error) {
	for l.target.Reachable() && l.outdated(o) {
		joined, err := l.joinOrWrite(ctx, o, func(ctx context.Context) error { return l.writeCopy(ctx, o, false) })
		if errors.Is(err, errGone) {
			return reconcile.Result{}, nil
		}
		if refusal := (*needs.RefusedError)(nil); errors.As(err, &refusal) {
			return l.retryRefused(ctx, o, refusal)
		}
		if err != nil || !joined { // Another write may have begun before the object changed.
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, nil
}

// retryRefused reports a refusal. Rights that are missing may be about to arrive, so the queue retries as after errors.
func (l *link) retryRefused(
	ctx context.Context, o objectKey, refusal *needs.RefusedError,
) (reconcile.Result, error) {
	err := l.reportRefusal(ctx, o, refusal)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case refusal.Class == apierror.RightsMissing:
		return reconcile.Result{}, refusal
	default:
		return reconcile.Result{RequeueAfter: refusedRetry}, nil
	}
}

// reportRefusal records an event about an original whose copy is outdated: with each new reason, and when API servers
// have forgotten the last event. The log says each new reason once.
func (l *link) reportRefusal(ctx context.Context, o objectKey, refusal *needs.RefusedError) error {
	before, now := l.recordOf(o), l.follower.options.Clock.Now()
	news := before.refused != refusal.Reason
	if !news && now.Sub(before.said) < engage.SayAgainAfter {
		return nil
	}
	original, err := l.follower.readOriginal(ctx, o)
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	l.follower.recordNotFollowed(original, l.target, refusal)
	if news {
		log.FromContext(ctx).Info("Not followed", "reason", refusal.Error())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.written[o]
	r.refused, r.said = refusal.Reason, now
	l.written[o] = r
	return nil
}

// joinOrWrite writes the copy, or joins a write that is under way. The write goes on when its caller leaves, because
// others may wait for it.
func (l *link) joinOrWrite(
	ctx context.Context,
	o objectKey,
	write func(context.Context) error,
) (joined bool, err error) {
	began := false
	done := l.flights.DoChan(o.String(), func() (any, error) {
		began = true
		return nil, write(l.life)
	})
	select {
	case result := <-done:
		return !began, result.Err
	case <-ctx.Done():
		return false, fmt.Errorf("writing %s: %w", o, ctx.Err())
	}
}

// writeCopy reads the object and writes its copy.
func (l *link) writeCopy(ctx context.Context, o objectKey, touch bool) error {
	original, err := l.follower.readOriginal(ctx, o)
	if err != nil {
		return err
	}
	c := desiredCopy(original, o)
	before := l.recordOf(o)
	r := copyRecord{
		version:  original.GetResourceVersion(),
		touched:  before.touched,
		written:  l.follower.options.Clock.Now(),
		repaired: before.repaired,
	}
	if touch {
		r.touched = r.written
	}
	if !r.touched.IsZero() {
		c.SetAnnotations(map[string]string{v1alpha1.AnnotationNeededAt: r.touched.UTC().Format(time.RFC3339)})
	}
	exists := before.version != "" || l.isNeeded(o)
	if err := refusalOf(o, l.writer.Write(ctx, c, exists)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[o] = r
	return nil
}

// refusalOf turns the error of a write into a *needs.RefusedError if a retry cannot help. A ServiceAccount of that name
// is good enough for the pod, whoever made it.
func refusalOf(o objectKey, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*writer.NotOursError)) && o.Resource == needs.ServiceAccounts:
		return nil
	case errors.As(err, new(*writer.NotOursError)):
		return &needs.RefusedError{Ref: o.Ref, Reason: fmt.Sprintf(
			"exists there and does not come from this cluster, was made under another user name of it, or has lost "+
				"the annotation %s: rename one, delete it, or use it as it is with the annotation %s: %s",
			v1alpha1.AnnotationFollowedBy, v1alpha1.AnnotationUseExisting, o.Ref,
		)}
	case errors.As(err, new(*writer.UnguardedError)):
		return &needs.RefusedError{Ref: o.Ref, Reason: "is refused there: " + err.Error()}
	}
	if class := apierror.Of(err, apierror.Create); class.Refusal() {
		return &needs.RefusedError{Ref: o.Ref, Reason: "is refused there: " + apierror.Message(err), Class: class}
	}
	return fmt.Errorf("writing %s: %w", o, err)
}
