package placement

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Wait is why a pod waits in the target that has its delegate. It says whether the pod may move to another target.
type Wait int

const (
	// Undecided means that the target schedules the delegate, preempts others for it, or says nothing. The pod stays.
	Undecided Wait = iota
	// Gated means that the target holds the delegate back by scheduling gates. The pod may move.
	Gated
	// Growing means that the target is expected to add a node. The pod may move.
	Growing
)

// waitOf returns why a pod waits whose PodChaperon was last seen like this, if it waits.
func waitOf(seen *v1alpha1.PodChaperon) Wait {
	said, _ := read(seen)
	switch {
	case seen.Status.NominatedNodeName != "":
		return Undecided
	case said == held:
		return Gated
	case said == unfit:
		return Growing
	default:
		return Undecided
	}
}

// InvitedError says that a pod is to be scheduled again at once. Its target still has the delegate, but another target
// may have room.
type InvitedError struct{ Target string }

// Error names the target that has the delegate.
func (e *InvitedError) Error() string {
	return "the pod waits in " + e.Target + ", and another target may have room"
}

// Invite ends the wait for a proxy, if somebody waits, because another target may have room. Place returns an
// *InvitedError, unless the target is deciding.
func (d *Delegates) Invite(proxy types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.byProxy[proxy]; ok && known.waiter != nil {
		known.waiter.invited = true
		known.notify()
	}
}

func (d *Delegates) invited(w *waiter) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return w.invited
}

// Departure is why a pod leaves the target that has its delegate.
type Departure struct {
	// Reason is for people.
	Reason string
	// Closed says that the target takes no pods now. So the pod need not wait for what the target decides.
	Closed bool
}

// Vacate withdraws the proxy's delegate from a target that has not scheduled it, so that another target can have it. It
// returns nil when no delegate can be there any more. An *InvitedError says that the delegate is still there: the
// target has scheduled it, or is deciding. After any other error nothing is known, as after Place. As Place does,
// Vacate waits for the target's cache if the pod is gone.
func (p *Placer) Vacate(ctx context.Context, proxy *corev1.Pod, from *Target, leave Departure) error {
	w := p.Delegates.startWaiting(client.ObjectKeyFromObject(proxy), proxy.UID, from)
	defer p.Delegates.stopWaiting(proxy.UID, w)
	moves := func(now *v1alpha1.PodChaperon) (*RefusedError, time.Duration) {
		if Scheduled(now) || !leave.Closed && waitOf(now) == Undecided {
			return nil, 0
		}
		return &RefusedError{Target: from.Name(), Reason: leave.Reason}, 0
	}
	stays := &InvitedError{Target: from.Name()}
	seen := p.Delegates.in(from, proxy.UID)
	if seen == nil && leave.Closed && p.Delegates.isUncertain(proxy.UID, from) {
		found, err := p.findUnseen(ctx, proxy, from)
		if err != nil {
			return fmt.Errorf("leaving %s: %w", from.Name(), err)
		}
		if found == nil {
			return nil
		}
		seen = found
	}
	if seen == nil {
		return stays
	}
	because, _ := moves(seen)
	if because == nil {
		return stays
	}
	err := p.withdraw(ctx, w, seen, because, moves)
	if errors.As(err, new(*RefusedError)) {
		p.Delegates.noDoubt(proxy.UID, from)
		return nil
	}
	if p.Delegates.proxyState(w) == ProxyGone {
		p.awaitShown(ctx, w, seen)
	}
	if err == nil {
		return stays
	}
	return err
}
