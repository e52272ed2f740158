package targetkind

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// ConnectedSince says whether a ClusterTarget or Target was connected at some time since then, as its conditions say.
func ConnectedSince(target client.Object, since time.Time) bool {
	status := Status(target)
	connected := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConnected)
	known := status.ClusterID != "" || status.KubernetesVersion != "" || status.Epoch > 0
	switch {
	case connected == nil:
		return false // Nobody has looked at it yet.
	case connected.Status == metav1.ConditionFalse && !known:
		return false // It was never connected: the first connection shows one of these, and they stay.
	case connected.Status != metav1.ConditionFalse:
		return true
	default:
		return !connected.LastTransitionTime.Time.Before(since)
	}
}
