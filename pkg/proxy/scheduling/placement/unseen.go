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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// carriedOutWithin is how long after this process has given up a request to create a PodChaperon the target may still
// create it. See package connect/target.
const carriedOutWithin = timeouts.HoldDuration

// MayLeave says whether a pod can leave a target: its cache shows a PodChaperon of the pod with a delegate that is
// neither scheduled nor ending, or it shows none, although there may be one.
func (d *Delegates) MayLeave(t *Target, proxy types.UID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	known, ok := d.byProxy[proxy]
	if !ok {
		return false
	}
	if chaperon := known.chaperons[t]; chaperon != nil {
		return known.living(chaperon) && !Scheduled(chaperon)
	}
	return known.uncertain == t
}

// findUnseen returns the PodChaperon of a proxy that the target's cache does not show, although it may be there. The
// result is nil if there is none, and if there is an error: then nobody knows yet.
func (p *Placer) findUnseen(ctx context.Context, proxy *corev1.Pod, t *Target) (*v1alpha1.PodChaperon, error) {
	if p.clock.Since(p.Delegates.lastUnanswered(proxy.UID)) < carriedOutWithin {
		return nil, fmt.Errorf("leaving %s: it has not answered, and may still create the PodChaperon", t.Name())
	}
	named := &v1alpha1.PodChaperon{}
	named.Namespace, named.Name = proxy.Namespace, translate.DelegateName(proxy)
	found, err := live(ctx, t, named)
	forged := errors.As(err, new(*gate.ForgedError))
	switch {
	case client.IgnoreNotFound(err) != nil && !forged:
		return nil, fmt.Errorf("leaving %s, and looking whether the PodChaperon is there: %w", t.Name(), err)
	case err != nil || ProxyUID(found) != proxy.UID:
		p.Delegates.setUncertain(proxy.UID, t, false)
		return nil, nil //nolint:nilnil,nilerr // as promised: what is not there, or no PodChaperon of ours, is none
	case ending.Begun(found):
		p.Delegates.noteUnseen(t, found)
		return nil, fmt.Errorf("leaving %s: the delegate is being withdrawn", t.Name())
	}
	p.Delegates.noteUnseen(t, found)
	return found, nil
}

// lastUnanswered returns when the last request to create a PodChaperon of the proxy was not answered.
func (d *Delegates) lastUnanswered(proxy types.UID) time.Time {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if known, ok := d.byProxy[proxy]; ok {
		return known.unanswered
	}
	return time.Time{}
}
