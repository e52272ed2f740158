package garbagecollection

import (
	"encoding/json"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// annotationAdditions is an annotation of ServiceAccounts in the cache. It says whether somebody in this cluster added
// something.
const annotationAdditions = v1alpha1.GroupName + "/has-additions"

// slimAccount keeps the metadata of a copied ServiceAccount that this package reads.
func slimAccount(object any) (any, error) {
	whole, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	if _, done := whole.Annotations[annotationAdditions]; done && whole.ManagedFields == nil {
		return whole, nil
	}
	kept := slimMeta(&whole.ObjectMeta)
	kept.Annotations[annotationAdditions] = strconv.FormatBool(hasAdditions(&whole.ObjectMeta))
	return kept, nil
}

// hasAdditions says whether somebody in this cluster added something to a copied ServiceAccount: a cloud role, say, or
// a pull secret. Controllers that add to every account do not count. They would do so again.
func hasAdditions(account *metav1.ObjectMeta) bool {
	for _, entry := range account.ManagedFields {
		switch entry.Manager {
		case v1alpha1.FieldOwner, "kube-controller-manager", "openshift-controller-manager":
			continue
		}
		var fields map[string]json.RawMessage
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		for name := range fields {
			if name != "f:metadata" || hasKeysOfOthers(fields[name]) {
				return true
			}
		}
	}
	return false
}

// hasKeysOfOthers says whether managed fields of metadata have a label or annotation that is not one of ours.
func hasKeysOfOthers(data []byte) bool {
	var metadata map[string]map[string]json.RawMessage
	if json.Unmarshal(data, &metadata) != nil {
		return false
	}
	for _, field := range []string{"f:labels", "f:annotations"} {
		for key := range metadata[field] {
			if key != "." && !strings.HasPrefix(key, "f:"+v1alpha1.GroupName+"/") {
				return true
			}
		}
	}
	return false
}
