package translate

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Source identifies the source cluster.
type Source struct {
	// ClusterID is the UID of the cluster's namespace kube-system.
	ClusterID string
	// ClusterName is the configured name, or empty.
	ClusterName string
}

// Destination is the target of a PodChaperon.
type Destination struct {
	// Target is the name of the ClusterTarget (with an empty namespace) or Target.
	Target types.NamespacedName
	// Proof is the value of the annotation proof for the proxy and this target. If empty, there is no annotation.
	Proof string
}

// Chaperon returns the PodChaperon of the proxy for a target. The PodChaperon has the delegate's name, labels,
// annotations and spec. They are the proxy's, with three differences. The constraints are the user's own. Fields that
// the source cluster decides for itself are left out: node, priority, service account token and others. The keys of
// labels are rewritten, and so are the spec's references to labels.
//
// Chaperon fails if somebody changed the annotations that admission wrote.
func Chaperon(proxy *corev1.Pod, source Source, to Destination) (*v1alpha1.PodChaperon, error) {
	keep, fieldErr := labelsToKeep(proxy.Annotations)
	if fieldErr != nil {
		return nil, fieldErr
	}
	original, err := DelegateConstraints(proxy)
	if err != nil {
		return nil, err
	}
	labels := newRewriter(proxy.Labels, keep)
	return &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{
			Name:        DelegateName(proxy),
			Namespace:   proxy.Namespace,
			Labels:      delegateLabels(labels.labels(proxy.Labels), proxy, source, to.Target),
			Annotations: chaperonAnnotations(proxy, to.Proof),
		},
		Spec: delegateSpec(proxy, original, labels),
	}, nil
}

// DelegateConstraints returns the constraints of the proxy's delegate: the user's constraints on the target's nodes. It
// fails if somebody changed the annotation that admission wrote.
func DelegateConstraints(proxy *corev1.Pod) (Constraints, error) {
	encoded := proxy.Annotations[v1alpha1.AnnotationOriginalConstraints]
	original, err := decodeConstraints(encoded)
	if err != nil {
		path := annotationPath(v1alpha1.AnnotationOriginalConstraints)
		return Constraints{}, field.Invalid(path, encoded, err.Error())
	}
	return original, nil
}

func delegateLabels(
	labels map[string]string,
	proxy *corev1.Pod,
	source Source,
	target types.NamespacedName,
) map[string]string {
	labels[v1alpha1.LabelParentUID] = string(proxy.UID)
	labels[v1alpha1.LabelParentClusterID] = source.ClusterID
	labels[v1alpha1.LabelTargetID] = TargetID(target)
	labels[v1alpha1.LabelTargetHash] = TargetHash(target)
	if source.ClusterName != "" {
		labels[v1alpha1.LabelParentClusterName] = source.ClusterName
	}
	return labels
}

func chaperonAnnotations(proxy *corev1.Pod, proof string) map[string]string {
	annotations := map[string]string{}
	for key, value := range proxy.Annotations {
		if !strings.HasPrefix(key, ownPrefix) && key != corev1.LastAppliedConfigAnnotation {
			annotations[key] = value
		}
	}
	annotations[v1alpha1.AnnotationParentName] = proxy.Name
	annotations[v1alpha1.AnnotationParentNamespace] = proxy.Namespace
	if proof != "" {
		annotations[v1alpha1.AnnotationProof] = proof
	}
	return annotations
}

func delegateSpec(proxy *corev1.Pod, original Constraints, labels rewriter) corev1.PodSpec {
	spec := proxy.Spec.DeepCopy()
	original.replaceIn(spec)
	spec.NodeName = ""
	// The target's admission computes these fields from its own classes of the same names.
	spec.Priority = nil
	spec.PreemptionPolicy = nil
	spec.Overhead = nil
	// The source's controllers satisfy these gates, and nobody in the target does. See ProxyStatus.
	spec.ReadinessGates = nil
	spec.SchedulingGates = nil
	// API servers do not allow this field when a pod is created.
	spec.EphemeralContainers = nil
	removeTokens(spec)
	labels.spec(spec)
	return *spec
}

// Delegate returns the delegate of the PodChaperon, which controls the delegate. The delegate has no annotations that
// are only about the PodChaperon. More people can read pods than PodChaperons.
func Delegate(chaperon *v1alpha1.PodChaperon) *corev1.Pod {
	annotations := maps.Clone(chaperon.Annotations)
	delete(annotations, v1alpha1.AnnotationDeletionGracePeriod)
	delete(annotations, v1alpha1.AnnotationProof)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        chaperon.Name,
			Namespace:   chaperon.Namespace,
			Labels:      maps.Clone(chaperon.Labels),
			Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(chaperon, v1alpha1.GroupVersion.WithKind("PodChaperon")),
			},
		},
		Spec: *chaperon.Spec.DeepCopy(),
	}
}
