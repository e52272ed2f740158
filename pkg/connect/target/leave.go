package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/pause"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

const (
	// leaveWithin is how long a target that was deleted is tried, since the last PodChaperon that could be deleted.
	leaveWithin = 10 * time.Minute
	// leaveTimeout bounds each half of an attempt.
	leaveTimeout   = 30 * time.Second
	deletesAtATime = 10
	// namespacesAtATime bounds how many namespaces are searched for copies at the same time.
	namespacesAtATime = 10
	// unknown stands for a number of PodChaperons that nobody could count.
	unknown = -1
)

var errNoCredentials = errors.New("this manager has no usable credentials for it")

// leave deletes our objects in the target of a (Cluster)Target that was deleted, and disengages it. It tries again,
// with a new connection if need be, until they are deleted, or leaveWithin has passed. Then it says what stays. It ends
// early if the (Cluster)Target is created again.
func (l *loop) leave(ctx, life context.Context, last *want) {
	defer l.disengage()
	if l.engaged == nil && l.known == "" && (last == nil || !last.self) {
		return // It was never connected.
	}
	left, backoff := l.counted(ctx), newBackoff()
	doubtful, _, _ := l.creations.pending()
	until := l.options.Clock.Now().Add(leaveWithin)
	for {
		now, err := l.leaveOnce(ctx, life, last, doubtful > 0)
		switch {
		case now != unknown && (left == unknown || now < left):
			left, until = now, l.options.Clock.Now().Add(leaveWithin)
		case now == unknown && l.engaged != nil:
			left = unknown // The target was reached, and did not show all PodChaperons.
		}
		switch {
		case err == nil, ctx.Err() != nil && life.Err() == nil:
			return
		case last == nil, life.Err() != nil, !l.options.Clock.Now().Before(until),
			now == 0 && apierrors.IsForbidden(err): // It is a copy that somebody has made their own.
			l.connections.reportRemains(ctx, l.key, left, err)
			return
		}
		log.FromContext(ctx).V(1).Info("Leaving a deleted target takes another attempt", "error", err.Error())
		pause.For(ctx, l.options.Clock, backoff.Step())
	}
}

// counted returns how many PodChaperons a target has, or is about to have, that is or was engaged.
func (l *loop) counted(ctx context.Context) int {
	if l.engaged == nil {
		return unknown
	}
	found, err := standing(ctx, l.engaged.target)
	if err != nil {
		return unknown
	}
	doubtful, _, _ := l.creations.pending()
	return len(found) + doubtful
}

// leaveOnce returns how many PodChaperons stay. It deletes those that the cache shows at once. Then it ends the work of
// observers, waits for what they have begun to create, and deletes that, too. doubtful says that there was such a thing
// when the target was left. It deletes copies last: while observers work with the target, they would be created again.
func (l *loop) leaveOnce(ctx, life context.Context, last *want, doubtful bool) (left int, err error) {
	if err := l.reachAgain(ctx, life, last); err != nil {
		return unknown, err
	}
	target := l.engaged.target
	if left, err = deleteChaperons(ctx, target); err != nil {
		return left, err
	}
	l.options.Registry.Disengage(target)
	if l.engaged.rest != nil {
		l.engaged.rest()
	}
	l.engaged.creator.stop()
	if left, err = l.creations.wait(ctx); err != nil {
		return left, err
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	switch missed, err := l.deleteCreated(ctx, target, doubtful); {
	case err != nil && missed == unknown:
		return unknown, err
	case err != nil:
		return max(left, missed), err
	}
	l.creations.checked()
	return 0, l.deleteCopies(ctx, target)
}

// reachAgain connects to the target if it is not connected, or may not be written to any more.
func (l *loop) reachAgain(ctx, life context.Context, last *want) error {
	if e := l.engaged; e != nil && e.target.Reachable() && e.identity.Other() == nil &&
		(e.hold == nil || e.hold.Context().Err() == nil) {
		return nil
	}
	l.disengage()
	if last == nil {
		return errNoCredentials
	}
	e, err := l.reach(ctx, life, *last)
	if err != nil {
		return err
	}
	l.engaged = e
	return nil
}

// reportRemains says that objects of this source stay in the target of a (Cluster)Target that was deleted, and how to
// end them. Nobody else says it: the (Cluster)Target has no status any more.
func (c *connections) reportRemains(ctx context.Context, target types.NamespacedName, left int, err error) {
	name, command := targetkind.Name(target), targetkind.EndCommand(target, c.options.Source.ClusterID)
	log.FromContext(ctx).Error(err, "Objects stay in a target that was deleted",
		"podChaperons", left, "command", command)
	if left == 0 {
		return // Copies alone do no harm, and the target's manager removes most of them.
	}
	many := "PodChaperons"
	if left > 0 {
		many = fmt.Sprintf("%d PodChaperons", left)
	}
	deleted := targetkind.New(target)
	deleted.SetNamespace(target.Namespace)
	deleted.SetName(target.Name)
	c.options.Recorder.Eventf(deleted, nil, corev1.EventTypeWarning, v1alpha1.ReasonDelegatesMayRun, "Leave",
		"%s was deleted, and %s of it may stay in its cluster: their delegates run on beside the pods that replace "+
			"theirs, unless they are fenced. To end them, run %s (%s)",
		name, many, command, wire.Shorten(err.Error(), maxText))
}

// standing returns the PodChaperons of a target that are not being deleted.
func standing(ctx context.Context, target *engage.Target) ([]client.Object, error) {
	chaperons := &v1alpha1.PodChaperonList{}
	if err := target.Client.List(ctx, chaperons); err != nil {
		return nil, fmt.Errorf("listing PodChaperons: %w", err)
	}
	var found []client.Object
	for i := range chaperons.Items {
		if chaperons.Items[i].DeletionTimestamp.IsZero() {
			found = append(found, &chaperons.Items[i])
		}
	}
	return found, nil
}

// deleteChaperons returns how many PodChaperons stay.
func deleteChaperons(ctx context.Context, target *engage.Target) (left int, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	found, err := standing(ctx, target)
	if err != nil {
		return unknown, err
	}
	return deleteAll(ctx, target, found, metav1.DeletePropagationForeground)
}

// deleteCreated deletes the PodChaperons that this process has created and the target's API server has, whether or not
// the cache shows them. It returns how many stay, or unknown if a namespace could not be searched.
//
// Whoever takes the rights away ends what is there, usually. But if a ClusterSource or Source is deleted, nobody ends a
// PodChaperon that is created a moment later. So while that is doubtful, a refusal alone does not say that there is
// none.
func (l *loop) deleteCreated(ctx context.Context, target *engage.Target, doubtful bool) (left int, err error) {
	namespaces := l.creations.namespaces()
	if target.Copied == nil && len(namespaces) > 0 {
		namespaces = []string{target.Key.Namespace}
	}
	var group errgroup.Group
	var stay atomic.Int32
	var unsearched atomic.Bool
	group.SetLimit(namespacesAtATime)
	for _, namespace := range namespaces {
		group.Go(func() error {
			found, err := l.created(ctx, target, namespace)
			if apierrors.IsForbidden(err) && (!doubtful || target.HasNothingIn(namespace)) {
				return nil
			}
			if err != nil {
				unsearched.Store(true)
				return err
			}
			some, err := deleteAll(ctx, target, found, metav1.DeletePropagationForeground)
			stay.Add(int32(some)) //nolint:gosec // They fit into memory.
			return err
		})
	}
	if err = group.Wait(); unsearched.Load() {
		return unknown, err
	}
	return int(stay.Load()), err
}

// created asks the target for the PodChaperons of a namespace, or of all if it is empty, that are not being deleted.
func (l *loop) created(ctx context.Context, target *engage.Target, namespace string) ([]client.Object, error) {
	kind := v1alpha1.GroupVersion.WithKind("PodChaperon")
	var found []client.Object
	for next := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodChaperonList"))
		err := target.APIReader.List(ctx, list, client.MatchingLabels(l.ours()), client.InNamespace(namespace),
			client.Limit(strayPage), client.Continue(next))
		if err != nil {
			return nil, fmt.Errorf("listing PodChaperons: %w", err)
		}
		for i := range list.Items {
			one := &list.Items[i]
			one.SetGroupVersionKind(kind)
			if one.DeletionTimestamp.IsZero() {
				found = append(found, one)
			}
		}
		if next = list.Continue; next == "" {
			return found, nil
		}
	}
}

// deleteCopies deletes the Services, EndpointSlices and Ingresses that were made for the target. The target's manager
// would keep the global ones. It deletes copies of other kinds by itself.
func (l *loop) deleteCopies(ctx context.Context, target *engage.Target) error {
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
	_, err = deleteAll(ctx, target, objects, metav1.DeletePropagationBackground)
	return err
}

// siblings returns the targets that say that they lead to the same cluster, and may be used by the namespace. Copies
// that they show belong to them: they keep or delete these.
func (l *loop) siblings(target *engage.Target, namespace string) []*engage.Target {
	return slices.DeleteFunc(l.options.Registry.All(), func(other *engage.Target) bool {
		return target.ClusterID == "" || other.ClusterID != target.ClusterID || !other.Allows(namespace)
	})
}

// deleteAll returns how many objects stay.
func deleteAll(
	ctx context.Context,
	target *engage.Target,
	objects []client.Object,
	propagation metav1.DeletionPropagation,
) (left int, err error) {
	var group errgroup.Group
	var deleted atomic.Int32
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
			deleted.Add(1)
			return nil
		})
	}
	err = group.Wait()
	return len(objects) - int(deleted.Load()), err
}
