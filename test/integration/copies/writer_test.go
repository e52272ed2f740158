package copies

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	follow "github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/copies"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// What the source's part writes, it writes with the identity that it has here.
func TestTheSourceWritesCopies(t *testing.T) {
	namespace := target.Namespace(t, nil)
	for name, secret := range map[string]*corev1.Secret{
		"mutable":        {},
		"immutable":      {Immutable: ptr.To(true)},
		"another-type":   {Type: "example.org/type"},
		"mutable-copy":   nil,
		"immutable-copy": nil,
	} {
		if secret != nil {
			secret.Namespace, secret.Name, secret.Data = namespace, name, map[string][]byte{"password": []byte(password)}
			must(t, target.Client.Create(t.Context(), secret))
		}
	}
	c, err := client.New(source(t, "c1", namespace).config, client.Options{Scheme: target.Client.Scheme()})
	must(t, err)
	writer := follow.NewWriter(c, c, translate.Source{ClusterID: "c1"})

	for _, name := range []string{"mutable", "immutable", "another-type"} {
		for _, exists := range []bool{false, true} {
			err := writer.Write(t.Context(), copyToWrite(namespace, name, "new", false), exists)
			if !errors.As(err, new(*follow.NotOursError)) {
				t.Errorf("writing over the target's %s: error %v does not say that it is not a copy", name, err)
			}
			wantPassword(t, namespace, name, password)
		}
	}
	for name, immutable := range map[string]bool{"mutable-copy": false, "immutable-copy": true} {
		for _, value := range []string{"first", "second"} {
			must(t, writer.Write(t.Context(), copyToWrite(namespace, name, value, immutable), value == "second"))
			wantPassword(t, namespace, name, value)
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

func wantPassword(t *testing.T, namespace, name, value string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	must(t, target.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	if diff := cmp.Diff(map[string][]byte{"password": []byte(value)}, secret.Data); diff != "" {
		t.Errorf("Secret %q (-want +got):\n%s", name, diff)
	}
}
