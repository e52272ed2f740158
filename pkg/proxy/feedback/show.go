package feedback

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// statusesPerSecond is how many statuses of one target are written to proxies, after statusesBurst. A large status
	// counts as several. The burst has room for a target that is connected again, and whose delegates all changed.
	statusesPerSecond, statusesBurst = 300, 3000
	// statusPart is the part of a status, in bytes, that counts as one. Most pods have less.
	statusPart = 4 << 10
	// showLater is how long a status waits that the budget does not allow. A later one of the same proxy replaces it.
	showLater = 5 * time.Second
)

// show writes the proxy's new status, as far as the budget of the target goes. The end of a delegate does not wait: a
// proxy ends once, so a target that reports changes without end cannot delay the ends of its delegates. Nor does it
// delay that an address is hidden.
func (r *reconciler) show(ctx context.Context, proxy *corev1.Pod, p *plan) error {
	ends := translate.Finished(p.status.Phase) && !translate.Finished(proxy.Status.Phase)
	allowed := r.statuses.AllowN(r.options.Clock.Now(), 1+p.status.Size()/statusPart)
	if !allowed && !ends && !r.feedback.mustHide(proxy) {
		p.waitFor(showLater)
		return nil
	}
	return r.feedback.showStatus(ctx, proxy, *p.status)
}
