package garbagecollection

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// DeleteCopies deletes all copies at once, also global ones, whether a pod needs them or not. Claims stay. It is for a
// cluster that is no target any more. secretNamespaces are those of Options.
func DeleteCopies(ctx context.Context, client metadata.Interface, secretNamespaces []string) error {
	if len(secretNamespaces) == 0 || slices.Contains(secretNamespaces, "*") {
		secretNamespaces = []string{metav1.NamespaceAll}
	}
	var errs []error
	for _, kind := range copyKinds() {
		namespaces := []string{metav1.NamespaceAll}
		if kind.Resource == string(needs.Secrets) {
			namespaces = secretNamespaces
		}
		for _, namespace := range namespaces {
			errs = append(errs, deleteCopiesOf(ctx, client, kind, namespace))
		}
	}
	return errors.Join(errs...)
}

func deleteCopiesOf(ctx context.Context, client metadata.Interface, kind copyKind, namespace string) error {
	list, err := client.Resource(kind.GroupVersionResource).Namespace(namespace).
		List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelParentClusterID})
	if err != nil {
		return fmt.Errorf("listing %s: %w", kind.Resource, err)
	}
	var errs []error
	for i := range list.Items {
		object := &list.Items[i]
		if !isCopy(object) || object.DeletionTimestamp != nil {
			continue
		}
		only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(object.UID))}
		err := client.Resource(kind.GroupVersionResource).Namespace(object.Namespace).Delete(ctx, object.Name, only)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("deleting %s %s/%s: %w", kind.Resource, object.Namespace, object.Name, err))
		}
	}
	return errors.Join(errs...)
}
