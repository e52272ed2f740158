package ending

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// Slack is the time that the target's garbage collector and kubelet have, beyond the grace period, to end a delegate
// that has no PodChaperon.
const Slack = 10 * time.Second

// MayRun says whether a delegate may run that has no PodChaperon any more: somebody in the target deleted the
// PodChaperon in the background, say. If the target does not let the source look, the delegate may run unless its end
// is overdue. The source cannot watch pods in targets, so whoever waits for the end of the delegate asks again.
func MayRun(
	ctx context.Context, target *engage.Target, delegate types.NamespacedName, overdue bool,
) (runs bool, err error) {
	runs, err = target.HasPod(ctx, delegate)
	if apierrors.IsForbidden(err) {
		return !overdue, nil
	}
	return runs, err
}
