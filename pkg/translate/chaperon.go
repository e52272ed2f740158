package translate

import (
	"maps"
	"strings"
	"time"

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
	// Fence is after which time the target stops the delegate if it does not hear of the source. If 0, it does not.
	Fence time.Duration
	// KeepLabels says that the delegate has the proxy's labels under their own keys, too.
	KeepLabels bool
	// Annotations are those that the proxy is to have of its delegate: keys, or domains and "/*".
	Annotations []string
}

// Chaperon returns the PodChaperon of the proxy for a target. The PodChaperon has the delegate's name, labels,
// annotations and spec. They are the proxy's, with these differences:
//   - The constraints are the user's own. Their selectors of pods select delegates of the same source.
//   - Fields that the source cluster decides for itself are left out: node, priority, service account token and others.
//   - The keys of labels are rewritten. With Destination.KeepLabels, the labels have their own keys as well.
//   - Containers see the fields of the proxy, and its host name, unless the annotation pod-identity says otherwise.
//
// Chaperon fails if somebody changed the annotations that admission wrote.
func Chaperon(proxy *corev1.Pod, source Source, to Destination) (*v1alpha1.PodChaperon, error) {
	keep, fieldErr := labelsToKeep(proxy.Labels, proxy.Annotations)
	if fieldErr != nil {
		return nil, fieldErr
	}
	original, err := DelegateConstraints(proxy)
	if err != nil {
		return nil, err
	}
	labels := newRewriter(ownLabels(proxy), keep)
	spec := delegateSpec(proxy, original)
	labels.selectors(spec)
	onlyOfSource(spec, source)
	if err := identify(spec, proxy, labels); err != nil {
		return nil, err
	}
	return &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{
			Name:        DelegateName(proxy),
			Namespace:   proxy.Namespace,
			Labels:      delegateLabels(labels, proxy, source, to),
			Annotations: chaperonAnnotations(proxy, to),
		},
		Spec: *spec,
	}, nil
}

// DelegateConstraints returns the constraints of the proxy's delegate: the user's constraints on the target's nodes,
// and tolerations that somebody added to the proxy later. See MoveAdded for other constraints. It fails if somebody
// changed the annotation that admission wrote.
func DelegateConstraints(proxy *corev1.Pod) (Constraints, error) {
	if err := validateLength(field.NewPath("spec"), &proxy.Spec); err != nil {
		return Constraints{}, err
	}
	encoded := proxy.Annotations[v1alpha1.AnnotationOriginalConstraints]
	original, err := decodeConstraints(encoded)
	if err != nil {
		path := annotationPath(v1alpha1.AnnotationOriginalConstraints)
		return Constraints{}, field.Invalid(path, excerpt(encoded), err.Error())
	}
	original.Tolerations = append(original.Tolerations, addedTolerations(proxy)...)
	return original, nil
}

// DelegateLabels returns the labels of the proxy's delegate in a target, as Chaperon does.
func DelegateLabels(proxy *corev1.Pod, source Source, to Destination) (map[string]string, error) {
	keep, err := labelsToKeep(proxy.Labels, proxy.Annotations)
	if err != nil {
		return nil, err
	}
	return delegateLabels(newRewriter(ownLabels(proxy), keep), proxy, source, to), nil
}

func delegateLabels(rewriter rewriter, proxy *corev1.Pod, source Source, to Destination) map[string]string {
	labels := rewriter.labels(ownLabels(proxy))
	if to.KeepLabels {
		keepLabels(labels, ownLabels(proxy))
	}
	labels[v1alpha1.LabelParentUID] = string(proxy.UID)
	labels[v1alpha1.LabelParentClusterID] = source.ClusterID
	labels[v1alpha1.LabelTargetID] = TargetID(to.Target)
	labels[v1alpha1.LabelTargetHash] = TargetHash(to.Target)
	if source.ClusterName != "" {
		labels[v1alpha1.LabelParentClusterName] = source.ClusterName
	}
	return labels
}

// passedAnnotations returns the annotations of a proxy that its delegate has, too.
func passedAnnotations(all map[string]string) map[string]string {
	passed, taken := map[string]string{}, fromTarget(all)
	for key, value := range all {
		if copied(key) && !taken[key] {
			passed[key] = value
		}
	}
	return passed
}

func chaperonAnnotations(proxy *corev1.Pod, to Destination) map[string]string {
	annotations := passedAnnotations(proxy.Annotations)
	maps.Copy(annotations, carried(proxy))
	annotations[v1alpha1.AnnotationRevision] = Revision{Fingerprint: atCreation(proxy)}.String()
	annotations[v1alpha1.AnnotationParentName] = proxy.Name
	annotations[v1alpha1.AnnotationParentNamespace] = proxy.Namespace
	if to.Proof != "" {
		annotations[v1alpha1.AnnotationProof] = to.Proof
	}
	if to.KeepLabels {
		annotations[v1alpha1.AnnotationKeepsLabels] = ""
	}
	if len(to.Annotations) > 0 {
		annotations[v1alpha1.AnnotationWantedAnnotations] = strings.Join(to.Annotations, ",")
	}
	if to.Fence > 0 {
		annotations[v1alpha1.AnnotationFenceAfter] = FenceValue(to.Fence)
	}
	return annotations
}

func delegateSpec(proxy *corev1.Pod, original Constraints) *corev1.PodSpec {
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
	// API servers do not allow this field when a pod is created. See ChangedChaperon.
	spec.EphemeralContainers = nil
	removeTokens(spec)
	return spec
}

// identify makes the spec show containers the proxy's fields and host name, or else the delegate's own.
func identify(spec *corev1.PodSpec, proxy *corev1.Pod, labels rewriter) error {
	own, err := seesDelegate(proxy)
	switch {
	case err != nil:
		return err
	case own:
		fieldRefs(spec, labels.fieldRef)
	default:
		fieldRefs(spec, referToProxy)
		nameHost(spec, proxy.Name)
	}
	return nil
}

// Delegate returns the delegate of the PodChaperon, which controls the delegate. The delegate has no annotations that
// are only about the PodChaperon. More people can read pods than PodChaperons. A delegate that is created again after a
// change has no ephemeral containers, as any pod that is created again.
func Delegate(chaperon *v1alpha1.PodChaperon) *corev1.Pod {
	delegate := delegateOf(chaperon)
	if RevisionOf(chaperon).Number > 0 {
		delegate.Spec.EphemeralContainers = nil
	}
	recordIn(delegate, recordOf(delegate))
	return delegate
}

func delegateOf(chaperon *v1alpha1.PodChaperon) *corev1.Pod {
	annotations := maps.Clone(chaperon.Annotations)
	delete(annotations, v1alpha1.AnnotationDeletionGracePeriod)
	delete(annotations, v1alpha1.AnnotationWithdrawn)
	delete(annotations, v1alpha1.AnnotationProof)
	delete(annotations, v1alpha1.AnnotationFenceAfter)
	delete(annotations, v1alpha1.AnnotationKeepsLabels)
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
