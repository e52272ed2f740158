package objects

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// ReasonNotFollowed is the reason of the event that says why a change does not reach the pods in a target.
const ReasonNotFollowed = "NotFollowed"

func (f *Follower) recordNotFollowed(original runtime.Object, target *engage.Target, refusal *needs.RefusedError) {
	retry := refusedRetry
	if refusal.Class == apierror.RightsMissing {
		retry = lastRetry
	}
	f.options.Recorder.Eventf(
		original,
		nil,
		corev1.EventTypeWarning,
		ReasonNotFollowed,
		engage.EventAction("Follow"+translate.TargetHash(target.Key), refusal.Reason),
		"Target %s (virtual node %s) does not get what changed here, which is tried again every %s: %s",
		targetkind.Name(target.Key),
		target.NodeName,
		retry,
		refusal.Error(),
	)
}
