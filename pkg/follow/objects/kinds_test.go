package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

func TestCopyOf(t *testing.T) {
	meta := map[string]any{
		"name": "x", "namespace": "shop", "uid": "1", "resourceVersion": "7",
		"labels":      map[string]any{"app.kubernetes.io/instance": "argo"},
		"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "{}"},
	}
	copied := map[string]any{"name": "x", "namespace": "shop"}
	data := map[string]any{"k": "dg=="}
	for name, test := range map[string]struct {
		resource       needs.Resource
		original, want map[string]any
	}{
		"a ConfigMap's whole content is copied, its labels and annotations are not": {
			needs.ConfigMaps,
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data, "immutable": true},
			map[string]any{
				"apiVersion": "v1",
				"kind":       "ConfigMap",
				"metadata":   copied,
				"data":       data,
				"binaryData": nil,
				"immutable":  true,
			},
		},
		"a Secret's type is copied, too": {
			needs.Secrets,
			map[string]any{
				"apiVersion": "v1",
				"kind":       "Secret",
				"metadata":   meta,
				"data":       data,
				"type":       "kubernetes.io/tls",
			},
			map[string]any{
				"apiVersion": "v1",
				"kind":       "Secret",
				"metadata":   copied,
				"data":       data,
				"type":       "kubernetes.io/tls",
				"immutable":  nil,
			},
		},
		"a service account's token is copied as a Secret of no special type": {
			needs.Secrets,
			map[string]any{
				"apiVersion": "v1",
				"kind":       "Secret",
				"metadata":   meta,
				"data":       data,
				"type":       "kubernetes.io/service-account-token",
			},
			map[string]any{
				"apiVersion": "v1",
				"kind":       "Secret",
				"metadata":   copied,
				"data":       data,
				"type":       "Opaque",
				"immutable":  nil,
			},
		},
		"of a ServiceAccount only the fields for pods are copied": {
			needs.ServiceAccounts,
			map[string]any{
				"apiVersion":                   "v1",
				"kind":                         "ServiceAccount",
				"metadata":                     meta,
				"secrets":                      []any{map[string]any{"name": "s"}},
				"automountServiceAccountToken": false,
			},
			map[string]any{
				"apiVersion":                   "v1",
				"kind":                         "ServiceAccount",
				"metadata":                     copied,
				"automountServiceAccountToken": false,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := desiredCopy(
				&unstructured.Unstructured{Object: test.original},
				objectKey{"shop", needs.Ref{Resource: test.resource, Name: "x"}},
			)
			if diff := cmp.Diff(test.want, got.Object); diff != "" {
				t.Errorf("copy (-want +got):\n%s", diff)
			}
		})
	}
}
