package garbagecollection

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// sighting is the time since when a copy has not been needed, in this version of the copy.
type sighting struct {
	resourceVersion string
	since           time.Time
}

// decision says how to treat a copy. The zero decision is to do nothing, and to forget its sighting.
type decision struct {
	seen   *sighting
	remove bool
	wait   time.Duration // until it is time to decide again
}

// decideCopy decides on a copy. before is its sighting, or nil if it was needed when it was seen last.
func decideCopy(
	object *metav1.PartialObjectMetadata,
	needed bool,
	before *sighting,
	now time.Time,
	grace time.Duration,
) decision {
	if needed || !isCopy(object) || object.DeletionTimestamp != nil {
		return decision{}
	}
	if before == nil || before.resourceVersion != object.ResourceVersion {
		return decision{seen: &sighting{object.ResourceVersion, now}, wait: grace}
	}
	if wait := before.since.Add(grace).Sub(now); wait > 0 {
		return decision{seen: before, wait: wait}
	}
	return decision{seen: before, remove: true}
}

func isCopy(object *metav1.PartialObjectMetadata) bool {
	_, followed := object.Annotations[v1alpha1.AnnotationFollowedBy]
	return followed && object.Labels[v1alpha1.LabelParentClusterID] != ""
}

func isGlobal(object *metav1.PartialObjectMetadata) bool {
	return object.Annotations[v1alpha1.AnnotationGlobal] == "true"
}
