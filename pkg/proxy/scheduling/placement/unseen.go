package placement

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

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
	return known.doubts[t.NodeName].target == t
}

// findUnseen returns the PodChaperon of a proxy that the target's cache does not show, although it may be there. The
// result is nil if there is none, and if there is an error: then nobody knows yet.
func (p *Placer) findUnseen(ctx context.Context, proxy *corev1.Pod, t *Target) (*v1alpha1.PodChaperon, error) {
	late := p.clock.Since(p.Delegates.lastUnanswered(proxy.UID, t)) >= carriedOutWithin
	named := &v1alpha1.PodChaperon{}
	named.Namespace, named.Name = proxy.Namespace, translate.DelegateName(proxy)
	found, err := live(ctx, t, named)
	forged := errors.As(err, new(*gate.ForgedError))
	switch {
	case client.IgnoreNotFound(err) != nil && !forged:
		return nil, fmt.Errorf("looking whether the PodChaperon is there: %w", err)
	case (err != nil || ProxyUID(found) != proxy.UID) && !late:
		return nil, errors.New("it has not answered, and may still create the PodChaperon")
	case err != nil || ProxyUID(found) != proxy.UID:
		p.Delegates.noDoubt(proxy.UID, t)
		return nil, nil //nolint:nilnil,nilerr // as promised: what is not there, or no PodChaperon of ours, is none
	case ending.Begun(found):
		p.Delegates.noteUnseen(t, found)
		return nil, errors.New("the delegate is being withdrawn")
	}
	p.Delegates.noteUnseen(t, found)
	return found, nil
}

// awaitShown keeps the waiter of a proxy that is gone, so that the next pod of its name waits, too. It returns when the
// target's cache shows the PodChaperon: from then on Delegates knows it. It also returns when the PodChaperon is gone,
// when ctx ends, and when the target is lost or disengaged. A cache that lists anew never shows a PodChaperon that came
// and went before. So the API server is asked, too, now and then.
func (p *Placer) awaitShown(ctx context.Context, w *waiter, chaperon *v1alpha1.PodChaperon) {
	timer := p.clock.NewTimer(p.timeout)
	defer timer.Stop()
	for !w.target.Lost() && !p.Delegates.shown(w, chaperon) {
		select {
		case <-w.news:
		case <-timer.C():
			_, gone, err := deletedUnseen(ctx, w.target, chaperon)
			if gone {
				return
			}
			logWait(ctx, w.target, chaperon, err)
			timer.Reset(p.timeout)
		case <-w.target.engagement.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// shown says whether the target's cache shows the PodChaperon, or has lost it since the wait began.
func (d *Delegates) shown(w *waiter, chaperon *v1alpha1.PodChaperon) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if w.deleted.has(chaperon.UID) {
		return true
	}
	known, ok := d.byProxy[ProxyUID(chaperon)]
	return ok && known.chaperons[w.target] != nil && known.chaperons[w.target].UID == chaperon.UID
}
