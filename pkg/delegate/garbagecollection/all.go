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

// attempts is how often copies are listed and deleted, while some of them change in between.
const attempts = 5

// DeleteCopies deletes all copies at once, also global ones, whether a pod needs them or not. Claims stay, and so do
// ServiceAccounts to which somebody in this cluster added something. A copy that somebody makes their own meanwhile
// stays, too. DeleteCopies is for a cluster that is no target any more. secretNamespaces are those of Options.
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

// deleteCopiesOf lists copies anew if some have changed since they were listed: these may be copies no more.
func deleteCopiesOf(ctx context.Context, client metadata.Interface, kind copyKind, namespace string) error {
	for attempt := 1; ; attempt++ {
		changed, err := deleteListed(ctx, client.Resource(kind.GroupVersionResource), kind, namespace)
		if err != nil || changed == nil {
			return err
		}
		if attempt == attempts {
			return changed
		}
	}
}

// deleteListed deletes copies exactly as they were listed. changed says that one of them has changed since.
func deleteListed(
	ctx context.Context, client metadata.Getter, kind copyKind, namespace string,
) (changed, err error) {
	list, err := client.Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelParentClusterID})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind.Resource, err)
	}
	var errs []error
	for i := range list.Items {
		object := &list.Items[i]
		if !isCopy(object) || object.DeletionTimestamp != nil ||
			kind == serviceAccounts() && hasAdditions(&object.ObjectMeta) {
			continue
		}
		exactly := metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
		options := metav1.DeleteOptions{Preconditions: &exactly}
		err := client.Namespace(object.Namespace).Delete(ctx, object.Name, options)
		if err == nil || apierrors.IsNotFound(err) {
			continue
		}
		err = fmt.Errorf("deleting %s %s/%s: %w", kind.Resource, object.Namespace, object.Name, err)
		if apierrors.IsConflict(err) {
			changed = err
		} else {
			errs = append(errs, err)
		}
	}
	return changed, errors.Join(errs...)
}
