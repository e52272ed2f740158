package services

import (
	"encoding/json"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
)

// metaChanges gives a copy the labels and annotations of the wanted one. Labels and annotations that others in the
// target added stay. The marks stay too: where two targets lead to one cluster, the copy belongs to the first. A copy
// without annotations lacks its mark, which package writer adds first.
func metaChanges(existing, wanted metav1.Object) []patch.Operation {
	ours := written(existing)
	return append(
		mapChanges("/metadata/annotations", existing.GetAnnotations(), wanted.GetAnnotations(), ours["f:annotations"]),
		mapChanges("/metadata/labels", existing.GetLabels(), wanted.GetLabels(), ours["f:labels"])...)
}

func mapChanges(path string, existing, wanted map[string]string, ours map[string]any) []patch.Operation {
	var changes []patch.Operation
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if value, ok := existing[key]; !isTargetMark(key) && (!ok || value != wanted[key]) {
			changes = append(changes, patch.Add(path+patch.Pointer(key), wanted[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(existing)) {
		_, stays := wanted[key]
		if _, isOurs := ours["f:"+key]; isOurs && !stays && !isMark(key) {
			changes = append(changes, patch.Remove(path+patch.Pointer(key)))
		}
	}
	return changes
}

// isMark says whether a key says to whom the copy belongs.
func isMark(key string) bool {
	switch key {
	case v1alpha1.LabelParentClusterID,
		v1alpha1.LabelParentClusterName,
		v1alpha1.AnnotationFollowedBy:
		return true
	}
	return isTargetMark(key)
}

// isTargetMark says whether a key says which target looks after the copy.
func isTargetMark(key string) bool {
	return key == v1alpha1.LabelTargetID || key == v1alpha1.LabelTargetHash
}

// written returns the keys of the labels and annotations that we wrote last.
func written(existing metav1.Object) map[string]map[string]any {
	ours := map[string]map[string]any{}
	for _, entry := range existing.GetManagedFields() {
		var fields struct {
			Metadata map[string]map[string]any `json:"f:metadata"`
		}
		if entry.Manager != v1alpha1.FieldOwner || entry.FieldsV1 == nil ||
			json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		for field, keys := range fields.Metadata {
			if ours[field] == nil {
				ours[field] = map[string]any{}
			}
			maps.Copy(ours[field], keys)
		}
	}
	return ours
}

// specChange returns the change that replaces a spec by the wanted one, or nothing if they are equal.
func specChange(existing, wanted any) []patch.Operation {
	if equality.Semantic.DeepEqual(existing, wanted) {
		return nil
	}
	return []patch.Operation{patch.Add("/spec", wanted)}
}

// sliceChanges compares without managed fields, which contain every address. Of the metadata, only the annotation
// global changes.
func sliceChanges(existing, wanted *discoveryv1.EndpointSlice) []patch.Operation {
	ours := map[string]any{"f:" + v1alpha1.AnnotationGlobal: nil}
	changes := mapChanges("/metadata/annotations", existing.Annotations, wanted.Annotations, ours)
	if !equality.Semantic.DeepEqual(existing.Endpoints, wanted.Endpoints) {
		changes = append(changes, patch.Add("/endpoints", wanted.Endpoints))
	}
	if !equality.Semantic.DeepEqual(existing.Ports, wanted.Ports) {
		changes = append(changes, patch.Add("/ports", wanted.Ports))
	}
	return changes
}
