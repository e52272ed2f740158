package claims

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// skew is the greatest difference that the clocks of two clusters may have.
const skew = time.Hour

// annotationDefaultClass marks the StorageClass of claims that name none.
const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

// claim is the entry that is kept of a PersistentVolumeClaim.
type claim struct {
	uid      types.UID
	deleting bool
	request  int64 // bytes
	bound    bool  // bound to a volume: only such claims can be expanded

	// Only claims of the source have these.
	follow     bool
	followedTo location
	givenUp    bool // says that the copy is nowhere
	created    time.Time
	class      string
	noClass    bool // names no class, not even the empty one
	// filledFrom is the object of the source, for users, with whose contents the volume begins. It is empty if the
	// volume begins empty.
	filledFrom string

	// Only claims of targets have these.
	origin origin
	parent types.UID // of the claim that a copy was made for
	empty  bool      // has no volume, and no node for which one is made
}

// location is a target's name, as users see it, and the ID of its cluster. An unknown ID is empty.
type location struct{ name, clusterID string }

// followedTo returns the location of a claim's copy, as the claim's annotations say. It is empty if they say nothing.
func followedTo(pvc *corev1.PersistentVolumeClaim) location {
	name := pvc.Annotations[v1alpha1.AnnotationFollowedTo]
	if name == "" {
		return location{}
	}
	return location{name, pvc.Annotations[v1alpha1.AnnotationFollowedToClusterID]}
}

// givenUp says whether somebody said that the claim's copy is nowhere, or not needed any more. Without the annotation,
// nobody has said anything: a tool that writes objects as a whole may have lost it.
func givenUp(pvc *corev1.PersistentVolumeClaim) bool {
	name, said := pvc.Annotations[v1alpha1.AnnotationFollowedTo]
	return said && name == ""
}

// sameClusterAs says whether two locations are in the same cluster, as far as is known. A target may have another name
// than before, and a name may lead to another cluster.
func (p location) sameClusterAs(other location) bool {
	if p.clusterID == "" || other.clusterID == "" {
		return p.name == other.name
	}
	return p.clusterID == other.clusterID
}

// origin says who made a claim.
type origin int

const (
	others origin = iota // not a known copy
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
		givenUp:    givenUp(pvc),
		created:    pvc.CreationTimestamp.Time,
		class:      ptr.Deref(pvc.Spec.StorageClassName, ""),
		noClass:    pvc.Spec.StorageClassName == nil,
		filledFrom: filledFrom(&pvc.Spec),
		origin:     originOf(pvc, clusterID),
		parent:     types.UID(pvc.Labels[v1alpha1.LabelParentUID]),
		empty:      isEmpty(pvc),
	}
}

// filledFrom names the data source of a claim. API servers set both fields, and the reference alone if it says more.
func filledFrom(spec *corev1.PersistentVolumeClaimSpec) string {
	switch ref := spec.DataSourceRef; {
	case ref != nil && ptr.Deref(ref.Namespace, "") != "":
		return fmt.Sprintf("%s %q", ref.Kind, *ref.Namespace+"/"+ref.Name)
	case ref != nil:
		return fmt.Sprintf("%s %q", ref.Kind, ref.Name)
	case spec.DataSource != nil:
		return fmt.Sprintf("%s %q", spec.DataSource.Kind, spec.DataSource.Name)
	default:
		return ""
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
		return others // Somebody may have restored it from a backup on purpose.
	default:
		return ours
	}
}

// fixedSize is about the bytes of an entry without its texts.
const fixedSize = 1 << 9

func sizeOfClaim(name string, c *claim) int64 {
	texts := len(name) + len(c.uid) + len(c.class) + len(c.parent) + len(c.filledFrom) +
		len(c.followedTo.name) + len(c.followedTo.clusterID)
	return fixedSize + int64(texts)
}

func sizeOfClass(name string, _ *class) int64 { return fixedSize + int64(len(name)) }

// isMadeFor says whether the claim is our copy of this original.
func (c *claim) isMadeFor(original *claim) bool { return c.origin == ours && c.parent == original.uid }

// isOf says whether the claim is the original itself, or our copy of it.
func (c *claim) isOf(original *claim) bool { return c.uid == original.uid || c.isMadeFor(original) }

// serves says whether pods with the original use the claim where it is: it is the original itself, our copy of it, or
// no known copy.
func (c *claim) serves(original *claim) bool { return c.isOf(original) || c.origin == others }

// givenFree returns the claim as it is when its copy was taken back.
func (c *claim) givenFree() *claim {
	free := *c
	free.followedTo, free.givenUp = location{}, true
	return &free
}

// class is the entry that is kept of a StorageClass.
type class struct {
	isDefault bool
	immediate bool // It makes volumes before a pod uses them.
}

func classOf(sc *storagev1.StorageClass) class {
	mode := ptr.Deref(sc.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	return class{
		isDefault: sc.Annotations[annotationDefaultClass] == "true",
		immediate: mode == storagev1.VolumeBindingImmediate,
	}
}

// namesOf returns the names of the claims to which a pod refers. Claims of generic ephemeral volumes are left out: they
// are made with the delegate.
func namesOf(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if v := pod.Spec.Volumes[i].PersistentVolumeClaim; v != nil && !slices.Contains(names, v.ClaimName) {
			names = append(names, v.ClaimName)
		}
	}
	return names
}
