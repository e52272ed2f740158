package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

const (
	leaveTimeout   = 30 * time.Second
	deletesAtATime = 10
	// namespacesAtATime bounds how many namespaces are searched for copies at the same time.
	namespacesAtATime = 10
)

// leave deletes our objects in the target, if it answers, and disengages it. It deletes copies last: while the target
// is engaged, they would be created again.
func (l *loop) leave(ctx context.Context) {
	if l.engaged == nil || !l.engaged.target.Reachable() {
		l.disengage()
		return
	}
	target := l.engaged.target
	if err := deleteChaperons(ctx, target); err != nil {
		log.FromContext(ctx).Error(err, "Some PodChaperons stay in the target that was deleted")
	}
	l.disengage()
	if err := l.deleteCopies(ctx, target); err != nil {
		log.FromContext(ctx).Error(err, "Some copies of Services and Ingresses stay in the target that was deleted")
	}
}

func deleteChaperons(ctx context.Context, target *engage.Target) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	chaperons := &v1alpha1.PodChaperonList{}
	if err := target.Client.List(ctx, chaperons); err != nil {
		return fmt.Errorf("listing PodChaperons: %w", err)
	}
	objects := make([]client.Object, len(chaperons.Items))
	for i := range chaperons.Items {
		objects[i] = &chaperons.Items[i]
	}
	return deleteAll(ctx, target, objects, metav1.DeletePropagationForeground)
}

// deleteCopies deletes the Services, EndpointSlices and Ingresses that were made for the target. The target's manager
// would keep the global ones. It deletes copies of other kinds by itself.
func (l *loop) deleteCopies(ctx context.Context, target *engage.Target) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	made := client.MatchingLabels{
		v1alpha1.LabelParentClusterID: l.options.Source.ClusterID,
		v1alpha1.LabelTargetHash:      target.Hash,
	}
	// The target's own EndpointSlices have the labels of their Service, too.
	byUs := client.MatchingLabels{discoveryv1.LabelManagedBy: v1alpha1.FieldOwner}
	var group errgroup.Group
	group.SetLimit(namespacesAtATime)
	for _, namespace := range target.MayHaveCopies() {
		in := client.InNamespace(namespace)
		group.Go(func() error {
			return errors.Join(
				l.deleteCopiesOfKind(ctx, target, networkingv1.SchemeGroupVersion.WithKind("Ingress"), in, made),
				l.deleteCopiesOfKind(
					ctx, target, discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), in, made, byUs),
				l.deleteCopiesOfKind(ctx, target, corev1.SchemeGroupVersion.WithKind("Service"), in, made),
			)
		})
	}
	return group.Wait()
}

func (l *loop) deleteCopiesOfKind(
	ctx context.Context,
	target *engage.Target,
	kind schema.GroupVersionKind,
	selected ...client.ListOption,
) error {
	found := &metav1.PartialObjectMetadataList{}
	found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := target.APIReader.List(ctx, found, selected...)
	if apierrors.IsForbidden(err) {
		return nil // Without this right, the source has created none.
	}
	if err != nil {
		return fmt.Errorf("listing copies: %w", err)
	}
	var objects []client.Object
	for i := range found.Items {
		copied := &found.Items[i]
		copied.SetGroupVersionKind(kind)
		shown := func(sibling *engage.Target) bool { return sibling.Has(ctx, copied) }
		if target.Made(copied) && !slices.ContainsFunc(l.siblings(target, copied.Namespace), shown) {
			objects = append(objects, copied)
		}
	}
	return deleteAll(ctx, target, objects, metav1.DeletePropagationBackground)
}

// siblings returns the targets that say that they lead to the same cluster, and may be used by the namespace. Copies
// that they show belong to them: they keep or delete these.
func (l *loop) siblings(target *engage.Target, namespace string) []*engage.Target {
	return slices.DeleteFunc(l.options.Registry.All(), func(other *engage.Target) bool {
		return target.ClusterID == "" || other.ClusterID != target.ClusterID || !other.Allows(namespace)
	})
}

func deleteAll(
	ctx context.Context,
	target *engage.Target,
	objects []client.Object,
	propagation metav1.DeletionPropagation,
) error {
	var group errgroup.Group
	group.SetLimit(deletesAtATime)
	for _, object := range objects {
		group.Go(func() error {
			err := target.Client.Delete(
				ctx,
				object,
				client.PropagationPolicy(propagation),
				client.Preconditions{UID: ptr.To(object.GetUID())},
			)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting %q: %w", client.ObjectKeyFromObject(object), err)
			}
			return nil
		})
	}
	return group.Wait()
}
