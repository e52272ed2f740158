package services

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// meta returns the name, labels and annotations of a copy. It leaves out annotations for which leave returns true.
func (d desired) meta(original metav1.Object, leave func(key string) bool) metav1.ObjectMeta {
	labels := taken(original.GetLabels(), isDeployed)
	labels[v1alpha1.LabelTargetID] = translate.TargetID(d.target)
	labels[v1alpha1.LabelTargetHash] = translate.TargetHash(d.target)
	annotations := taken(original.GetAnnotations(), isDeployed, leave)
	annotations[v1alpha1.AnnotationIsDelegate] = ""
	if global(original) {
		annotations[v1alpha1.AnnotationGlobal] = "true"
	}
	return metav1.ObjectMeta{
		Namespace:   original.GetNamespace(),
		Name:        original.GetName(),
		Labels:      labels,
		Annotations: annotations,
	}
}

func taken(all map[string]string, leave ...func(key string) bool) map[string]string {
	out := make(map[string]string, len(all)+1)
keys:
	for key, value := range all {
		for _, left := range leave {
			if left(key) {
				continue keys
			}
		}
		out[key] = value
	}
	return out
}

// isDeployed says whether deployment tools know their own objects by a key; our own keys count, too. Argo CD and Helm
// in the target would take the copy for theirs, and prune it.
func isDeployed(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	switch domain {
	case v1alpha1.GroupName,
		"argocd.argoproj.io",
		"meta.helm.sh",
		"kustomize.toolkit.fluxcd.io",
		"helm.toolkit.fluxcd.io":
		return true
	}
	switch key {
	case "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", corev1.LastAppliedConfigAnnotation:
		return true
	}
	return false
}

// isPublishing says whether an annotation is for load balancers and their DNS names. The copy has none of these.
func isPublishing(key string) bool {
	domain, name, _ := strings.Cut(key, "/")
	return strings.HasSuffix(domain, "service.beta.kubernetes.io") || domain == "external-dns.alpha.kubernetes.io" ||
		domain == "service.kubernetes.io" && strings.HasPrefix(name, "load-balancer")
}

// isCertificate says whether an annotation asks for a certificate. If the copy had it too, two writers would write the
// TLS Secret.
func isCertificate(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return strings.HasSuffix(domain, "cert-manager.io") || key == "kubernetes.io/tls-acme"
}

// global says whether a user wants an object everywhere. We write the annotation together with original-selector, too,
// when we rewrite a selector. Then it does not express a user's wish.
func global(o metav1.Object) bool {
	if o.GetAnnotations()[v1alpha1.AnnotationGlobal] != "true" {
		return false
	}
	_, rewritten := o.GetAnnotations()[v1alpha1.AnnotationOriginalSelector]
	return !rewritten || slices.ContainsFunc(o.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return owns(entry, v1alpha1.AnnotationGlobal) && !owns(entry, v1alpha1.AnnotationOriginalSelector)
	})
}
