package copies

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// requestTimeout is the deadline of each request.
const requestTimeout = 10 * time.Second

// NotOursError says that the target has an object of the copy's name that is not a copy of this source's.
type NotOursError struct{ Kind, Namespace, Name string }

// Error names the object.
func (e *NotOursError) Error() string {
	return fmt.Sprintf("%s %q in namespace %q is not a copy of this cluster's", e.Kind, e.Name, e.Namespace)
}

// Writer writes copies into one target. It is safe for concurrent use, but not for one copy.
type Writer struct {
	target client.Writer
	source translate.Source

	mu   sync.Mutex // guards user
	user *string
}

// NewWriter makes a Writer that writes through the target's client.
func NewWriter(target client.Writer, source translate.Source) *Writer {
	return &Writer{target: target, source: source}
}

// Write makes a copy, or makes it what it is to be. The copy has a kind, a name and a namespace; all its top-level fields are
// written, a nil one is removed there, others stay. Of its metadata, labels and annotations are written when it is made, and annotations later,
// too. Whether it exists already is only a guess that saves a request. A copy that must not be changed so, an immutable one say, is deleted and made anew.
// Write returns a *NotOursError, or the API server's error.
func (w *Writer) Write(ctx context.Context, object *unstructured.Unstructured, exists bool) error {
	user, err := w.userName(ctx)
	if err != nil {
		return err
	}
	marked := w.mark(object, user)
	if exists {
		if err := w.update(ctx, marked); !apierrors.IsNotFound(err) {
			return err
		}
	}
	err = w.create(ctx, marked)
	if apierrors.IsAlreadyExists(err) {
		return w.update(ctx, marked)
	}
	return err
}

// Delete removes the copy with this UID. That it is gone is no error.
func (w *Writer) Delete(ctx context.Context, object client.Object, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := w.target.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the copy: %w", err)
	}
	return nil
}

// userName is this source's in the target, empty where the target cannot tell.
func (w *Writer) userName(ctx context.Context) (string, error) {
	w.mu.Lock()
	known := w.user
	w.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	review := &authenticationv1.SelfSubjectReview{}
	if err := w.target.Create(ctx, review); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("asking for our user name: %w", err)
	}
	name := review.Status.UserInfo.Username
	w.mu.Lock()
	defer w.mu.Unlock()
	w.user = &name
	return name, nil
}

func (w *Writer) mark(object *unstructured.Unstructured, user string) *unstructured.Unstructured {
	marked := object.DeepCopy()
	labels, annotations := marked.GetLabels(), marked.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[v1alpha1.LabelParentClusterID] = w.source.ClusterID
	if w.source.ClusterName != "" {
		labels[v1alpha1.LabelParentClusterName] = w.source.ClusterName
	}
	annotations[v1alpha1.AnnotationFollowedBy] = user
	marked.SetLabels(labels)
	marked.SetAnnotations(annotations)
	return marked
}

func (w *Writer) create(ctx context.Context, object *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	object = object.DeepCopy() // The answer is written into it.
	for name, value := range object.Object {
		if value == nil {
			delete(object.Object, name)
		}
	}
	if err := w.target.Create(ctx, object, client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return fmt.Errorf("creating the copy: %w", err)
	}
	return nil
}

// update changes the copy, if it is one. The API server says that a patch is invalid both where a test fails and where a field must not change.
func (w *Writer) update(ctx context.Context, object *unstructured.Unstructured) error {
	_, refusal := w.patch(ctx, object, w.change(object))
	if !apierrors.IsInvalid(refusal) {
		return refusal
	}
	found, err := w.patch(ctx, object, w.test())
	switch {
	case apierrors.IsInvalid(err):
		return &NotOursError{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
	case err != nil:
		return err
	}
	if err := w.Delete(ctx, found, found.GetUID()); err != nil {
		return fmt.Errorf("replacing a copy that must not be changed (%w): %w", refusal, err)
	}
	return w.create(ctx, object)
}

// patch returns the object as it is then.
func (w *Writer) patch(ctx context.Context, object *unstructured.Unstructured, operations patch) (*unstructured.Unstructured, error) {
	data, err := operations.encode()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(object.GroupVersionKind())
	found.SetNamespace(object.GetNamespace())
	found.SetName(object.GetName())
	err = w.target.Patch(ctx, found, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(v1alpha1.FieldOwner))
	if err != nil {
		return nil, fmt.Errorf("changing the copy: %w", err)
	}
	return found, nil
}
