package gate

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// annotationOrphan marks orphans in caches. What a target writes there is removed.
const annotationOrphan = v1alpha1.GroupName + "/orphan"

// Parent is the proxy that a PodChaperon was made for.
type Parent struct {
	Key types.NamespacedName
	UID types.UID
	// Orphan says that the PodChaperon of a cache holds no pod, and is to be ended. It has no valid proof. When it
	// entered the cache, the source had no such proxy, or the proxy was bound to another node.
	Orphan bool
}

// ParentOf returns the parent of a PodChaperon. It reads what the gate left there, so the PodChaperon must have passed
// the gate, or have been made by the source.
func ParentOf(chaperon metav1.Object) Parent {
	annotations := chaperon.GetAnnotations()
	_, orphan := annotations[annotationOrphan]
	return Parent{
		Key: types.NamespacedName{
			Namespace: annotations[v1alpha1.AnnotationParentNamespace],
			Name:      annotations[v1alpha1.AnnotationParentName],
		},
		UID:    types.UID(chaperon.GetLabels()[v1alpha1.LabelParentUID]),
		Orphan: orphan,
	}
}

// maxGrace is the length of the longest grace period, a number of seconds.
const maxGrace = 20

// maxRevision is more than the length of the longest revision. See translate.Revision.
const maxRevision = 64

// strip keeps the fields of a PodChaperon that somebody reads from a cache: its parent, its marks, its status, whether
// its delegate is to end, after which time it is fenced, and its revision. The source wrote the other fields. It bounds
// the status, and the warnings and annotations in it.
func strip(chaperon *v1alpha1.PodChaperon, orphan bool) {
	labels, annotations := marks(ParentOf(chaperon), orphan)
	if id, ok := chaperon.Labels[v1alpha1.LabelTargetID]; ok {
		labels[v1alpha1.LabelTargetID] = id
	}
	if proved, ok := chaperon.Annotations[v1alpha1.AnnotationProof]; ok {
		annotations[v1alpha1.AnnotationProof] = proved
	}
	if grace, ok := chaperon.Annotations[v1alpha1.AnnotationDeletionGracePeriod]; ok {
		annotations[v1alpha1.AnnotationDeletionGracePeriod] = grace[:min(len(grace), maxGrace)]
	}
	if _, ok := chaperon.Annotations[v1alpha1.AnnotationWithdrawn]; ok {
		annotations[v1alpha1.AnnotationWithdrawn] = ""
	}
	if fence, ok := chaperon.Annotations[v1alpha1.AnnotationFenceAfter]; ok {
		annotations[v1alpha1.AnnotationFenceAfter] = fence[:min(len(fence), maxGrace)]
	}
	if revision, ok := chaperon.Annotations[v1alpha1.AnnotationRevision]; ok {
		annotations[v1alpha1.AnnotationRevision] = revision[:min(len(revision), maxRevision)]
	}
	chaperon.ManagedFields, chaperon.Labels, chaperon.Annotations = nil, labels, annotations
	chaperon.GenerateName, chaperon.OwnerReferences, chaperon.Finalizers = "", nil, nil
	chaperon.SelfLink = "" //nolint:staticcheck // No API server sends it any more, but a hostile target may.
	chaperon.Spec, chaperon.Unknown = v1alpha1.PodChaperon{}.Spec, nil
	warnings, others := translate.Warnings(chaperon.Status.Conditions)
	translate.BoundAnnotations(others)
	chaperon.Status.Conditions = others
	translate.BoundStatus(&chaperon.Status)
	chaperon.Status.Conditions = slices.Concat(chaperon.Status.Conditions, warnings)
}

// marks returns the labels and annotations from which ParentOf reads.
func marks(parent Parent, orphan bool) (labels, annotations map[string]string) {
	annotations = map[string]string{
		v1alpha1.AnnotationParentNamespace: parent.Key.Namespace,
		v1alpha1.AnnotationParentName:      parent.Key.Name,
	}
	if orphan {
		annotations[annotationOrphan] = ""
	}
	return map[string]string{v1alpha1.LabelParentUID: string(parent.UID)}, annotations
}
