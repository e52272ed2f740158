package source

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source/grants"
)

func (r *reconciler[T]) owner(source T) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(),
		Kind:       r.kind.name,
		Name:       source.GetName(),
		UID:        source.GetUID(),
	}
}

// ensureServiceAccount creates the service account if there is none. If this package created the service account, the
// source becomes one more owner.
func (r *reconciler[T]) ensureServiceAccount(
	ctx context.Context, key types.NamespacedName, owner metav1.OwnerReference,
) error {
	account := &corev1.ServiceAccount{}
	err := r.options.APIReader.Get(ctx, key, account)
	if apierrors.IsNotFound(err) {
		return r.createServiceAccount(ctx, key, owner)
	}
	if err != nil {
		return fmt.Errorf("getting service account %q: %w", key, err)
	}
	_, ours := account.Labels[grants.LabelSource]
	if !ours || slices.ContainsFunc(account.OwnerReferences, ownedBy(owner.UID)) {
		return nil
	}
	before := account.DeepCopy()
	account.OwnerReferences = append(account.OwnerReferences, owner)
	return r.patchOwners(ctx, before, account)
}

func (r *reconciler[T]) createServiceAccount(
	ctx context.Context, key types.NamespacedName, owner metav1.OwnerReference,
) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace:       key.Namespace,
		Name:            key.Name,
		Labels:          map[string]string{grants.LabelSource: ""},
		OwnerReferences: []metav1.OwnerReference{owner},
	}}
	if err := r.options.Client.Create(ctx, account, client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return fmt.Errorf("creating service account %q: %w", key, err)
	}
	return nil
}

// releaseServiceAccounts releases the service accounts that were created for earlier versions of the source's spec.
func (r *reconciler[T]) releaseServiceAccounts(ctx context.Context, source T, wanted types.NamespacedName) error {
	accounts := &corev1.ServiceAccountList{}
	err := r.options.Client.List(ctx, accounts,
		client.InNamespace(source.GetNamespace()), client.MatchingLabelsSelector{Selector: grants.CreatedHere()})
	if err != nil {
		return fmt.Errorf("listing service accounts: %w", err)
	}
	for i := range accounts.Items {
		account := &accounts.Items[i]
		owned := slices.ContainsFunc(account.OwnerReferences, ownedBy(source.GetUID()))
		if !owned || client.ObjectKeyFromObject(account) == wanted {
			continue
		}
		if err := r.release(ctx, account, source.GetUID()); err != nil {
			return err
		}
	}
	return nil
}

// release removes the owner. Without any other owner, it deletes the service account.
func (r *reconciler[T]) release(ctx context.Context, account *corev1.ServiceAccount, owner types.UID) error {
	if len(account.OwnerReferences) > 1 {
		after := account.DeepCopy()
		after.OwnerReferences = slices.DeleteFunc(after.OwnerReferences, ownedBy(owner))
		return r.patchOwners(ctx, account, after)
	}
	preconditions := client.Preconditions{UID: &account.UID, ResourceVersion: &account.ResourceVersion}
	if err := r.options.Client.Delete(ctx, account, preconditions); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting service account %q: %w", client.ObjectKeyFromObject(account), err)
	}
	return nil
}

// patchOwners replaces the owners. It fails with a conflict if somebody changed the account meanwhile; the controller
// tries again.
func (r *reconciler[T]) patchOwners(ctx context.Context, before, after *corev1.ServiceAccount) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.options.Client.Patch(ctx, after, patch, client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return fmt.Errorf("changing the owners of service account %q: %w", client.ObjectKeyFromObject(after), err)
	}
	return nil
}

func ownedBy(uid types.UID) func(metav1.OwnerReference) bool {
	return func(o metav1.OwnerReference) bool { return o.UID == uid }
}
