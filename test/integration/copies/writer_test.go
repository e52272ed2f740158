package copies

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestTheWriterOfASourceWritesCopiesOnly has the source's part write with the identity that it has in the target.
func TestTheWriterOfASourceWritesCopiesOnly(t *testing.T) {
	namespace := env.Namespace(t, nil, target)
	for name, secret := range map[string]*corev1.Secret{
		"mutable": {}, "immutable": {Immutable: ptr.To(true)}, "another-type": {Type: "example.org/type"},
	} {
		secret.Name = name
		createSecret(t, namespace, secret)
	}
	writer := newWriter(t, newSource(t, "c1", namespace).config)

	for _, name := range []string{"mutable", "immutable", "another-type"} {
		for _, exists := range []bool{false, true} {
			err := writer.Write(t.Context(), copyToWrite(namespace, name, "new", false), exists)
			if !isNotOurs(err) {
				t.Errorf("writing over the target's %s: error %v does not say that it is not a copy", name, err)
			}
			expectPassword(t, namespace, name, password)
		}
	}
	for name, immutable := range map[string]bool{"mutable-copy": false, "immutable-copy": true} {
		for _, value := range []string{"first", "second"} {
			content := copyToWrite(namespace, name, value, immutable)
			env.Must(t, writer.Write(t.Context(), content, value == "second"))
			expectPassword(t, namespace, name, value)
		}
	}
}

func copyToWrite(namespace, name, value string, immutable bool) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": nil,
		"data": map[string]any{"password": encode(value)},
	}}
	if immutable {
		object.Object["immutable"] = true
	}
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}
