package claims

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// skew is how far the clocks of two clusters may be apart.
const skew = time.Hour

// annotationDefaultClass marks the StorageClass of claims that name none.
const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

// claim is what is kept of a PersistentVolumeClaim.
type claim struct {
	uid      types.UID
	deleting bool
	request  int64 // bytes
	bound    bool  // to a volume: others cannot be expanded

	// Of those of the source.
	follow     bool
	followedTo location
	class      string
	noClass    bool // names none, not even the empty one

	// Of those of targets.
	origin origin
	parent types.UID // of the claim that a copy was made for
}

// place is a target: its name, as users call it, and the ID of its cluster, which is empty where it is unknown.
type location struct{ name, clusterID string }

// followedTo is where the copy of a claim is, as the claim says; nowhere if that has no name.
func followedTo(pvc *corev1.PersistentVolumeClaim) location {
	name := pvc.Annotations[v1alpha1.AnnotationFollowedTo]
	if name == "" {
		return location{}
	}
	return location{name, pvc.Annotations[v1alpha1.AnnotationFollowedToClusterID]}
}

// is says whether two places are in the same cluster, as far as is known: a target may have got another name, and its
// name may lead to another cluster.
func (p location) sameClusterAs(other location) bool {
	if p.clusterID == "" || other.clusterID == "" {
		return p.name == other.name
	}
	return p.clusterID == other.clusterID
}

// origin says who made a claim.
type origin int

const (
	others origin = iota // somebody: we do not know of whom it is a copy, if it is
	ours
	anotherSource
)

// claimOf reads a claim on behalf of the source with this ID.
func claimOf(pvc *corev1.PersistentVolumeClaim, clusterID string) claim {
	_, follow := pvc.Annotations[v1alpha1.AnnotationFollow]
	return claim{
		uid:        pvc.UID,
		deleting:   pvc.DeletionTimestamp != nil,
		request:    pvc.Spec.Resources.Requests.Storage().Value(),
		bound:      pvc.Status.Phase == corev1.ClaimBound,
		follow:     follow,
		followedTo: followedTo(pvc),
		class:      ptr.Deref(pvc.Spec.StorageClassName, ""),
		noClass:    pvc.Spec.StorageClassName == nil,
		origin:     originOf(pvc, clusterID),
		parent:     types.UID(pvc.Labels[v1alpha1.LabelParentUID]),
	}
}

func originOf(pvc *corev1.PersistentVolumeClaim, clusterID string) origin {
	cluster := pvc.Labels[v1alpha1.LabelParentClusterID]
	made, err := time.Parse(time.RFC3339, pvc.Annotations[v1alpha1.AnnotationNeededAt])
	switch {
	case cluster == "" || pvc.Labels[v1alpha1.LabelParentUID] == "":
		return others
	case cluster != clusterID:
		return anotherSource
	case err != nil || pvc.CreationTimestamp.Sub(made).Abs() > skew:
		return others // restored from a backup, say, by somebody to whom it matters
	default:
		return ours
	}
}

// isMadeFor says whether it is our copy of this claim.
func (c *claim) isMadeFor(original *claim) bool { return c.origin == ours && c.parent == original.uid }

// class is what is kept of a StorageClass.
type class struct{ isDefault bool }

func classOf(sc *storagev1.StorageClass) class {
	return class{isDefault: sc.Annotations[annotationDefaultClass] == "true"}
}

// namesOf returns the names of the claims that a pod refers to. Those of generic ephemeral volumes are made with the
// delegate.
func namesOf(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if v := pod.Spec.Volumes[i].PersistentVolumeClaim; v != nil && !slices.Contains(names, v.ClaimName) {
			names = append(names, v.ClaimName)
		}
	}
	return names
}
