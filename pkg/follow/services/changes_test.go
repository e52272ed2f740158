package services

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
)

func TestChangesOfLabelsAndAnnotations(t *testing.T) {
	existing := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{
			v1alpha1.LabelParentClusterID: "c1", v1alpha1.LabelTargetID: "first", v1alpha1.LabelTargetHash: "1",
			"gone": "x",
		},
		Annotations: map[string]string{
			v1alpha1.AnnotationFollowedBy: "c1",
			v1alpha1.AnnotationGlobal:     "true",
			"same/a":                      "1",
			"other/a":                     "1",
			"cloud/neg":                   "theirs",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "cloud", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:cloud/neg":{}}}}`)},
			{
				Manager: v1alpha1.FieldOwner,
				FieldsV1: metav1.NewFieldsV1(
					`{"f:metadata":{"f:annotations":{".":{},"f:multicluster.admiralty.io/followed-by":{},` +
						`"f:multicluster.admiralty.io/global":{},"f:same/a":{},"f:other/a":{}},` +
						`"f:labels":{"f:gone":{},"f:multicluster.admiralty.io/parent-cluster-id":{}}}}`,
				),
			},
		},
	}}
	wanted := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{v1alpha1.LabelTargetID: "second", v1alpha1.LabelTargetHash: "2"},
		Annotations: map[string]string{"same/a": "1", "other/a": "2", v1alpha1.AnnotationIsDelegate: ""},
	}}
	want := []patch.Operation{
		patch.Add("/metadata/annotations/multicluster.admiralty.io~1is-delegate", ""),
		patch.Add("/metadata/annotations/other~1a", "2"),
		patch.Remove("/metadata/annotations/multicluster.admiralty.io~1global"),
		patch.Remove("/metadata/labels/gone"),
	}
	if diff := cmp.Diff(want, metaChanges(existing, wanted)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestNothingIsWrittenThatIsThere(t *testing.T) {
	service, err := toC2().service(web(treatment), nil)
	if err != nil {
		t.Fatal(err)
	}
	if changes := append(
		metaChanges(service, service),
		specChange(service.Spec, *service.Spec.DeepCopy())...); len(
		changes,
	) > 0 {
		t.Errorf("changes of a Service: %v", changes)
	}
	slice := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
	if changes := sliceChanges(slice, slice.DeepCopy()); len(changes) > 0 {
		t.Errorf("changes of a slice: %v", changes)
	}
	http := discoveryv1.EndpointPort{Name: new("http"), Port: new(int32(80))}
	moved := http
	moved.Port = new(int32(8080))
	slice.Ports = []discoveryv1.EndpointPort{http}
	for name, ports := range map[string][]discoveryv1.EndpointPort{
		"another port": {moved}, "one more port": {http, moved}, "no port": nil,
	} {
		other := slice.DeepCopy()
		other.Ports = ports
		want := []patch.Operation{patch.Add("/ports", ports)}
		if diff := cmp.Diff(want, sliceChanges(slice, other)); diff != "" {
			t.Errorf("changes for %s (-want +got):\n%s", name, diff)
		}
	}
	other := slice.DeepCopy()
	other.Endpoints[0].Addresses[0] = "10.0.0.2"
	slice.Annotations = map[string]string{v1alpha1.AnnotationFollowedBy: "c1", v1alpha1.AnnotationGlobal: "true"}
	want := []patch.Operation{
		patch.Remove("/metadata/annotations/multicluster.admiralty.io~1global"),
		patch.Add("/endpoints", other.Endpoints),
	}
	if diff := cmp.Diff(want, sliceChanges(slice, other)); diff != "" {
		t.Errorf("changes of other addresses (-want +got):\n%s", diff)
	}
}
