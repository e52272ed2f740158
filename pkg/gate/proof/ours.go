package proof

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// IsOurs says whether an object in a target is labelled as made for the (Cluster)Target with this translate.TargetID.
// An object that has only the short label target-hash counts if it is older than createdAt ([Keys.CreatedAt]): the
// version that made it knew no other label. Since then, an object with the short label alone is not ours.
//
// Everybody in a target writes labels, so they prove nothing. They tell siblings apart, and so do short labels of names
// that nobody chose on purpose.
func IsOurs(object metav1.Object, targetID string, createdAt time.Time) bool {
	labels := object.GetLabels()
	return translate.MadeFor(labels, targetID) &&
		(translate.HasTargetID(labels) || object.GetCreationTimestamp().Time.Before(createdAt))
}
