package placement

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// creationsAtOnce is how many PodChaperons are created in a target at the same time. An API server with two cores needs
// about ten to be busy. With hundreds it answers none in time, and all are sent again.
const creationsAtOnce = 32

// Target is an engaged target in which delegates are placed.
type Target struct {
	*engage.Target

	// Ledger of the target's room. Placing reads from it whether the room has grown, and changes nothing.
	Ledger *fit.Ledger
	// Since is when the target's cache had listed all PodChaperons. Whoever watches the cache sets it.
	Since time.Time
	// engagement ends when the target is disengaged.
	engagement context.Context //nolint:containedctx // It is what ends.
	// turns holds a token for each request to create a PodChaperon that is under way.
	turns chan struct{}
	// unheard is when the target failed to answer a question of find in time, or nil if it has answered one since.
	unheard atomic.Pointer[time.Time]
}

// NewTarget makes a Target that is engaged until ctx ends. clusterID is the source's.
func NewTarget(ctx context.Context, engaged *engage.Target, clusterID string, c clock.PassiveClock) *Target {
	return &Target{
		Target:     engaged,
		Ledger:     fit.NewLedger(clusterID, c),
		engagement: ctx,
		turns:      make(chan struct{}, creationsAtOnce),
	}
}

// Name is how users know the target.
func (t *Target) Name() string { return targetkind.Name(t.Key) }

// Gone says whether the target is disengaged.
func (t *Target) Gone() bool { return t.engagement.Err() != nil }

// silent says whether the target has not answered a question of find in time, a short while ago.
func (t *Target) silent(now time.Time) bool {
	unheard := t.unheard.Load()
	return unheard != nil && now.Sub(*unheard) < unaskedFor
}

// noteAnswer notes whether the target has answered a question of find in time.
func (t *Target) noteAnswer(inTime bool, now time.Time) {
	if inTime {
		t.unheard.Store(nil)
	} else {
		t.unheard.Store(&now)
	}
}

// whileEngaged returns a context that ends with ctx, and when the target is disengaged. The caller must call end.
func (t *Target) whileEngaged(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.engagement, func() { cancel(errDisconnected) })
	return ctx, func() { stop(); cancel(nil) }
}

// fence returns after which silence of this source the target is to stop the proxy's delegate, or 0 for never. A source
// that holds no Lease in the target is not heard of there.
func (t *Target) fence(proxy *corev1.Pod) time.Duration {
	if t.Itself || t.Confirms == nil {
		return 0
	}
	return translate.FenceOf(proxy, t.Policy())
}

// errNotShown says that the target's cache does not show a PodChaperon that exists.
var errNotShown = errors.New("the target's cache does not show the PodChaperon yet, which says after which time the " +
	"delegate is fenced")

// Fenced returns after which silence of this source the target is to stop the proxy's delegate, as the target's cache
// shows its PodChaperon. It is 0 for never. Fenced returns an error if the cache does not show it.
//
// The problem is not empty if the pod or the target's policy asks for fencing, and the target does not fence the
// delegate now, or its PodChaperon says something else. A target that does not fence now may do so later. So it counts
// whether it fences when it is lost, and not here.
func (d *Delegates) Fenced(t *Target, proxy *corev1.Pod) (fence time.Duration, problem string, err error) {
	wanted := translate.FenceOf(proxy, t.Policy())
	switch {
	case wanted == 0 || t.Itself:
		return 0, "", nil
	case t.Confirms == nil:
		return 0, "this pod is not fenced: this cluster holds no Lease in the target; see there leases.enabled, " +
			"sourceController.enabled and the ClusterSource or Source, and give each source a user of its own", nil
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	known, ok := d.byProxy[proxy.UID]
	if !ok || known.chaperons[t] == nil {
		return 0, "", errNotShown
	}
	value := known.chaperons[t].Annotations[v1alpha1.AnnotationFenceAfter]
	if fence, _ = translate.Fence(value); fence == 0 { // An invalid one is 0.
		const text = "this pod is not fenced: its PodChaperon was made without the annotation "
		return 0, text + v1alpha1.AnnotationFenceAfter, nil
	}
	if !t.Fences() {
		problem = "this pod is not fenced now: the target's manager fences no delegates; " +
			"helm upgrade there, unless it is only silent or refuses this cluster"
	}
	return fence, problem, nil
}
