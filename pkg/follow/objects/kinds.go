package objects

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// errGone says that an object does not exist in the source.
var errGone = errors.New("it does not exist")

// objectKey names an object to which pods refer.
type objectKey struct {
	namespace string
	needs.Ref
}

// String returns resource/namespace/name.
func (o objectKey) String() string { return string(o.Resource) + "/" + o.namespace + "/" + o.Name }

// collection names a kind in a namespace.
type collection struct {
	namespace string
	resource  needs.Resource
}

func (o objectKey) collection() collection { return collection{o.namespace, o.Resource} }

func resourceOf(resource needs.Resource) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(string(resource))
}

// fieldsOf returns the fields of a kind that are copied.
func fieldsOf(resource needs.Resource) []string {
	switch resource {
	case needs.ConfigMaps:
		return []string{"data", "binaryData", "immutable"}
	case needs.Secrets:
		return []string{"data", "type", "immutable"}
	case needs.ServiceAccounts:
		return []string{"automountServiceAccountToken", "imagePullSecrets"}
	default:
		return nil
	}
}

// readOriginal reads an object from the source's API server. The error is errGone if the object does not exist.
func (f *Follower) readOriginal(ctx context.Context, o objectKey) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	original, err := f.contents.Resource(
		resourceOf(o.Resource),
	).Namespace(
		o.namespace,
	).Get(
		ctx,
		o.Name,
		metav1.GetOptions{},
	)
	if apierrors.IsNotFound(err) {
		return nil, errGone
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", o, err)
	}
	return original, nil
}

// desiredCopy returns the copy of an object. It shares the original's content.
func desiredCopy(original *unstructured.Unstructured, o objectKey) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{}}
	c.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(o.Resource.Kind()))
	c.SetNamespace(o.namespace)
	c.SetName(o.Name)
	for _, field := range fieldsOf(o.Resource) {
		value := original.Object[field]
		if value == nil && o.Resource == needs.ServiceAccounts {
			continue // The target's own value stays.
		}
		c.Object[field] = value // Nil is written, too.
	}
	if o.Resource == needs.Secrets && c.Object["type"] == string(corev1.SecretTypeServiceAccountToken) {
		c.Object["type"] = string(
			corev1.SecretTypeOpaque,
		) // In its own type the target would look for its account, and delete it.
	}
	return c
}
