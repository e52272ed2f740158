package writer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// attempts is two, because an existing copy may be gone when it is to be changed.
const attempts = 2

// NotOursError says that the target has an object of the copy's name that is not a copy of this source's.
type NotOursError struct{ Kind, Namespace, Name string }

// Error names the object.
func (e *NotOursError) Error() string {
	return fmt.Sprintf("%s %q in namespace %q is not a copy of this cluster's", e.Kind, e.Name, e.Namespace)
}

// UnguardedError says that nothing in a namespace of the target keeps us from changing objects of others, and that we
// cannot read whose they are.
type UnguardedError struct{ Namespace string }

// Error returns the reason, and a remedy.
func (e *UnguardedError) Error() string {
	return fmt.Sprintf(
		"in namespace %q, nothing shows which existing objects are copies of this source cluster, so all are left "+
			"alone: the source may not read them there, and the ValidatingAdmissionPolicy of "+
			"multicluster-scheduler's chart does not apply to it; install the chart there as it is, or let the source "+
			"get them",
		e.Namespace,
	)
}

// Writer writes copies into one target. It is safe for concurrent use, but not for concurrent writes of the same copy.
type Writer struct {
	target client.Writer
	reader client.Reader
	source translate.Source

	asking singleflight.Group
	mu     sync.Mutex // guards user
	user   *string
}

// NewWriter makes a Writer that writes through the target's client. The reader asks the target's API server.
func NewWriter(target client.Writer, reader client.Reader, source translate.Source) *Writer {
	return &Writer{target: target, reader: reader, source: source}
}

// Write creates or updates a copy, which has a kind, a name and a namespace. A ConfigMap or Secret is replaced as a
// whole. Of other kinds, the given top-level fields are written, and nil ones are removed. Their other fields stay, and
// so do the labels of a copy that exists. The argument exists is only a guess that saves a request. A copy that cannot
// be changed, such as an immutable one, is deleted and recreated, unless the target would refuse the new one. A new
// copy gets no annotation needed-at, because it needs none. A full quota does not keep a copy that exists from being
// updated. Write returns a *NotOursError, or the API server's error.
func (w *Writer) Write(ctx context.Context, object *unstructured.Unstructured, exists bool) error {
	user, err := w.userName(ctx)
	if err != nil {
		return err
	}
	marked := w.withMarks(object, user)
	for range attempts {
		if exists {
			if err := w.updateCopy(ctx, marked); !apierrors.IsNotFound(err) {
				return err
			}
		}
		err = w.createCopy(ctx, marked)
		if !exists && apierror.Of(err, apierror.Create) == apierror.QuotaExceeded {
			return w.updateDespiteQuota(ctx, marked, err)
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		exists = true
	}
	return err
}

// updateDespiteQuota updates the copy, or returns the refusal if there is none. Admission counts objects before the API
// server looks whether one of this name exists (create in k8s.io/apiserver/pkg/registry/generic/registry/store.go).
func (w *Writer) updateDespiteQuota(ctx context.Context, object *unstructured.Unstructured, refusal error) error {
	if err := w.updateCopy(ctx, object); !apierrors.IsNotFound(err) {
		return err
	}
	return refusal
}

// AsSeen lets a request fail unless the object is the same as it was seen. Labels say whose an object is, and they
// change.
func AsSeen(object metav1.Object) metav1.Preconditions {
	return metav1.Preconditions{UID: ptr.To(object.GetUID()), ResourceVersion: ptr.To(object.GetResourceVersion())}
}

// Delete deletes the copy if it is as it was seen, or the copy of this name if nobody could look. A copy that is gone,
// or that somebody has changed since, is no error. The object says its kind. Delete returns a *NotOursError if the
// target's admission policy takes the object for nobody's copy.
func (w *Writer) Delete(ctx context.Context, object client.Object, only metav1.Preconditions) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	options := []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationBackground)}
	if only.UID != nil {
		options = append(options, client.Preconditions(only))
	}
	switch err := w.target.Delete(ctx, object, options...); {
	case deniedByPolicy(err):
		return notOurs(object)
	case client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err):
		return fmt.Errorf("deleting the copy: %w", err)
	default:
		return nil
	}
}

// userName returns this source's user name in the target. It is empty if the target does not answer such questions.
func (w *Writer) userName(ctx context.Context) (string, error) {
	w.mu.Lock()
	known := w.user
	w.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	_, err, _ := w.asking.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
		defer cancel()
		review := &authenticationv1.SelfSubjectReview{}
		if err := w.target.Create(ctx, review); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("asking for our user name: %w", err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.user = &review.Status.UserInfo.Username
		return nil, nil
	})
	if err != nil {
		return "", err
	}
	return w.userName(ctx)
}

func (w *Writer) withMarks(object *unstructured.Unstructured, user string) *unstructured.Unstructured {
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

func (w *Writer) createCopy(ctx context.Context, object *unstructured.Unstructured) error {
	made := withoutNil(object)
	annotations := made.GetAnnotations()
	delete(annotations, v1alpha1.AnnotationNeededAt)
	made.SetAnnotations(annotations)
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	if err := w.target.Create(ctx, made, client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return fmt.Errorf("creating the copy: %w", err)
	}
	return nil
}

// withoutNil returns a copy of the object without nil fields. A client may write an answer into it.
func withoutNil(object *unstructured.Unstructured) *unstructured.Unstructured {
	c := object.DeepCopy()
	for name, value := range c.Object {
		if value == nil {
			delete(c.Object, name)
		}
	}
	return c
}

func (w *Writer) updateCopy(ctx context.Context, object *unstructured.Unstructured) error {
	if readable(object) {
		return w.patchCopy(ctx, object)
	}
	return w.updateWhole(ctx, object)
}

// readable says whether a source may read copies of the object's kind.
func readable(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case "ConfigMap", "Secret":
		return false
	default:
		return true
	}
}

// recreate deletes and creates a copy that cannot be changed.
func (w *Writer) recreate(
	ctx context.Context, object *unstructured.Unstructured, only metav1.Preconditions, refusal error,
) error {
	// If the target refuses the new copy, it answers so, and the old copy stays.
	if err := w.createCopy(ctx, object); !apierrors.IsAlreadyExists(err) {
		return err
	}
	err := w.Delete(ctx, withoutNil(object), only)
	if errors.As(err, new(*NotOursError)) {
		return err
	}
	if err != nil {
		return fmt.Errorf("replacing a copy that must not be changed (%w): %w", refusal, err)
	}
	return w.createCopy(ctx, object)
}

func notOurs(object client.Object) error {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	return &NotOursError{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}
