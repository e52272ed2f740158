package gate

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	kindPodChaperon = "PodChaperon"
	kindSummary     = "ClusterSummary"
)

// kindOf returns the kind of an object. Of a typed object, a target cannot choose it.
func kindOf(o client.Object) string {
	switch o.(type) {
	case *metav1.PartialObjectMetadata, *unstructured.Unstructured:
		return o.GetObjectKind().GroupVersionKind().Kind
	default:
		return reflect.TypeOf(o).Elem().Name()
	}
}

// clusterWide says whether objects of this kind, of those that the source uses in targets, have no namespace.
func clusterWide(o client.Object) bool {
	switch kindOf(o) {
	case kindSummary, "StorageClass", "IngressClass", "SelfSubjectReview":
		return true
	default:
		return false
	}
}
