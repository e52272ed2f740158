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
	connected := meta.FindStatusCondition(Status(target).Conditions, v1alpha1.ConditionConnected)
	switch {
	case connected == nil:
		return false // Nobody has connected it yet.
	case connected.Status != metav1.ConditionFalse:
		return true
	default:
		return !connected.LastTransitionTime.Time.Before(since)
	}
}
