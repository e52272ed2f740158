package copies

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

type patch []operation

func (p patch) encode() ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return data, nil
}

// test succeeds where the object is a copy of this source's.
func (w *Writer) test() patch {
	return patch{{"test", "/metadata/labels/" + escape(v1alpha1.LabelParentClusterID), w.source.ClusterID}}
}

// change tests and sets. That a copy has annotations is sure: we made it with one.
func (w *Writer) change(object *unstructured.Unstructured) patch {
	p := w.test()
	annotations := object.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		p = append(p, operation{"add", "/metadata/annotations/" + escape(key), annotations[key]})
	}
	for _, name := range slices.Sorted(maps.Keys(object.Object)) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			p = append(p, operation{"add", "/" + escape(name), object.Object[name]})
		}
	}
	return p
}

// escape a reference token of a JSON pointer (RFC 6901).
func escape(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}
