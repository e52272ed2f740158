package env

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the field owner of changes by tests. It differs from those of the parts under test.
const FieldOwner = client.FieldOwner("user")

// Create creates objects. Those without a namespace are deleted when the test ends, because other tests would see
// them. Those in a namespace stay: every test has namespaces of its own.
func Create(t T, c *Cluster, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Client.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s: %v", describe(c, object), err)
		}
		if _, isNamespace := object.(*corev1.Namespace); object.GetNamespace() == "" && !isNamespace {
			t.Cleanup(func() { remove(t, c, object) })
		}
	}
}

// CreateForTest creates objects and deletes all of them when the test ends.
func CreateForTest(t T, c *Cluster, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		Create(t, c, object)
		if object.GetNamespace() != "" {
			t.Cleanup(func() { remove(t, c, object) })
		}
	}
}

func remove(t T, c *Cluster, object client.Object) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := c.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		t.Errorf("deleting %s: %v", describe(c, object), err)
	}
}

// Ensure creates the objects that do not exist yet. They stay for the other tests.
func Ensure(t T, c *Cluster, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := client.IgnoreAlreadyExists(c.Client.Create(t.Context(), object)); err != nil {
			t.Fatalf("creating %s: %v", describe(c, object), err)
		}
	}
}

// Get reads an object into itself and returns it.
func Get[O client.Object](t T, c *Cluster, object O) O {
	t.Helper()
	Must(t, read(t.Context(), c, object))
	return object
}

// Exists reads an object into itself if it exists.
func Exists(t T, c *Cluster, object client.Object) bool {
	t.Helper()
	err := read(t.Context(), c, object)
	Must(t, client.IgnoreNotFound(err))
	return err == nil
}

// Change reads an object, calls change with it, and writes the differences.
func Change[O client.Object](t T, c *Cluster, object O, change func(O)) {
	t.Helper()
	modify(t, c, object, change, func(patch client.Patch) error {
		return c.Client.Patch(t.Context(), object, patch, FieldOwner)
	})
}

// ChangeStatus is Change for the status of an object.
func ChangeStatus[O client.Object](t T, c *Cluster, object O, change func(O)) {
	t.Helper()
	modify(t, c, object, change, func(patch client.Patch) error {
		return c.Client.Status().Patch(t.Context(), object, patch, FieldOwner)
	})
}

func modify[O client.Object](t T, c *Cluster, object O, change func(O), write func(client.Patch) error) {
	t.Helper()
	Get(t, c, object)
	before, _ := object.DeepCopyObject().(client.Object)
	change(object)
	if err := write(client.MergeFrom(before)); err != nil {
		t.Fatalf("changing %s: %v", describe(c, object), err)
	}
}

// Delete deletes an object.
func Delete(t T, c *Cluster, object client.Object, options ...client.DeleteOption) {
	t.Helper()
	if err := c.Client.Delete(t.Context(), object, options...); err != nil {
		t.Fatalf("deleting %s: %v", describe(c, object), err)
	}
}

// RemoveFinalizers takes all finalizers off an object that may still exist. It plays the controllers that set them.
func RemoveFinalizers(t T, c *Cluster, object client.Object) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	copied, _ := object.DeepCopyObject().(client.Object)
	Must(t, client.IgnoreNotFound(c.Client.Patch(t.Context(), copied, patch)))
}

// Bind binds a pod to a node. It plays a scheduler. It returns when the API server's own cache shows that, too. Until
// then, the API server takes the pod for one that is not bound if somebody deletes it, and deletes it at once.
func Bind(t T, c *Cluster, pod *corev1.Pod, node string) {
	t.Helper()
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	Must(t, c.Client.SubResource("binding").Create(t.Context(), pod, binding))
	Eventually(t, func(ctx context.Context) error {
		cached := &corev1.Pod{}
		anyVersion := &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}}
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), cached, anyVersion)
		if err == nil && cached.UID == pod.UID && cached.Spec.NodeName == "" {
			return errors.New("the API server's cache does not show the binding")
		}
		return client.IgnoreNotFound(err)
	})
}

// read reads an object into itself. No earlier field stays.
func read(ctx context.Context, c *Cluster, object client.Object) error {
	fresh := emptyLike(object)
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), fresh); err != nil {
		return fmt.Errorf("getting %s: %w", describe(c, object), err)
	}
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(fresh).Elem())
	return nil
}

// emptyLike returns an object of the same kind.
func emptyLike(object client.Object) client.Object {
	empty, _ := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	empty.GetObjectKind().SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	return empty
}

func describe(c *Cluster, object client.Object) string {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if gvk, err := c.Client.GroupVersionKindFor(object); err == nil {
		kind = gvk.Kind
	}
	name := object.GetName()
	if name == "" {
		name = object.GetGenerateName() + "…"
	}
	if namespace := object.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s %q in %s", kind, name, c.Name)
}
