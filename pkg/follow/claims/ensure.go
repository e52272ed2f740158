package claims

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// Ensure returns nil once the claims to which the pod refers are in the target. It returns a *needs.RefusedError if
// they are elsewhere, or if the target refuses them. After any other error it may be called again.
func (c *Claims) Ensure(ctx context.Context, pod *corev1.Pod, target *engage.Target) error {
	names := namesOf(pod)
	if len(names) == 0 {
		return nil
	}
	t, ok := c.targets.Get(target)
	if !ok {
		return fmt.Errorf("target %q is not engaged", target.Key)
	}
	if !target.Allows(pod.Namespace) {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: names[0]}
		return refusedError(key, apierror.OK, "cannot be looked for: "+notAllowed(pod.Namespace))
	}
	for _, name := range names {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		c.asks.note(key, pod.UID, t.location, c.options.Clock.Now())
		if err := c.ensure(ctx, key, t); err != nil {
			return err
		}
	}
	return nil
}

// refusedError has the class of the API server's answer, or OK if the claims themselves are the reason.
func refusedError(key types.NamespacedName, class apierror.Class, reason string) error {
	return &needs.RefusedError{
		Ref:    needs.Ref{Resource: needs.PersistentVolumeClaims, Name: key.Name},
		Reason: reason,
		Class:  class,
	}
}

// ensure relies on live answers of API servers only. A claim with the annotation follow is bound to the target, whoever
// made the target's claim: its pods must find what they stored. A target that was set back answers that it lacks the
// copy, too. So whoever concludes that a copy is gone asks the target to confirm.
func (c *Claims) ensure(ctx context.Context, key types.NamespacedName, t *cluster) error {
	release, err := c.ensuring.enter(ctx, key)
	if err != nil {
		return fmt.Errorf("waiting for another pod with claim %q: %w", key.Name, err)
	}
	defer release()
	t.setIdle(key, false)
	pvc, s, err := c.situationOf(ctx, key, t)
	if err != nil {
		return err
	}
	v := decide(s)
	if v.objection != "" {
		if err := c.restore(ctx, pvc, s); err != nil {
			return err
		}
		return refusedError(key, apierror.OK, v.objection)
	}
	if s.original == nil || !s.original.follow {
		return nil
	}
	keeper, err := c.keeperOf(ctx, key, s, t)
	if err != nil {
		return err
	}
	if keeper != nil && keeper != t {
		if err := c.bindTo(ctx, pvc, keeper.location); err != nil {
			return err
		}
		return refusedError(key, apierror.OK, "is in "+keeper.name)
	}
	if !v.makes {
		return c.bindTo(ctx, pvc, t.location)
	}
	if s.original.followedTo.name != "" && s.hasCopyIn(t.location) {
		if err := t.confirm(ctx); err != nil {
			return fmt.Errorf("confirming that the copy of claim %q is gone: %w", key.Name, err)
		}
	}
	return c.createCopy(ctx, pvc, *s.original, t)
}

// situationOf reads the claim in the source, in the target, and in the target that may keep its copy.
func (c *Claims) situationOf(
	ctx context.Context,
	key types.NamespacedName,
	t *cluster,
) (*corev1.PersistentVolumeClaim, situation, error) {
	pvc, original, err := c.source.readClaim(ctx, key)
	if err != nil {
		return nil, situation{}, fmt.Errorf("getting claim %q: %w", key.Name, err)
	}
	_, there, err := t.readClaim(ctx, key)
	if class := apierror.Of(err, apierror.Existing); class.Refusal() {
		return nil, situation{}, refusedError(
			key,
			class,
			"cannot be looked for: "+t.explain(err, "claims in namespace "+key.Namespace),
		)
	}
	if err != nil {
		return nil, situation{}, fmt.Errorf("getting claim %q in target %q: %w", key.Name, t.name, err)
	}
	c.records.note(key, original)
	s := situation{original: c.records.recall(key, original), there: there}
	s.keeping, s.keeper = c.keeping(key.Namespace, s, t, func(keeper *cluster) keeping {
		return keeper.keepsNow(ctx, key)
	})
	return pvc, s, nil
}

// keepsNow asks the target. It lacks the copy only if what it says is of the present.
func (c *cluster) keepsNow(ctx context.Context, key types.NamespacedName) keeping {
	_, there, err := c.readClaim(ctx, key)
	switch {
	case err != nil:
		return silent
	case there != nil:
		return kept
	}
	if c.confirm(ctx) != nil {
		return silent
	}
	return free
}

// confirm asks the target whether what it said just before is of the present.
func (c *cluster) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	return c.target.Confirm(ctx)
}

// readClaim asks the API server. A nil claim surely does not exist.
func (c *cluster) readClaim(
	ctx context.Context,
	key types.NamespacedName,
) (*corev1.PersistentVolumeClaim, *claim, error) {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	pvc := &corev1.PersistentVolumeClaim{}
	err := c.client.Get(ctx, key, pvc)
	if apierror.Of(err, apierror.Existing) == apierror.NotFound {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	read := claimOf(pvc, c.sourceID)
	return pvc, &read, nil
}

// createCopy binds the claim to the target before it makes the copy. Whoever sees a bound claim checks whether its copy
// exists.
func (c *Claims) createCopy(ctx context.Context, pvc *corev1.PersistentVolumeClaim, original claim, t *cluster) error {
	key := client.ObjectKeyFromObject(pvc)
	class, objection := c.classFor(&original, t)
	if objection != "" {
		return refusedError(key, apierror.OK, objection)
	}
	made, err := desiredCopy(pvc, class, c.options.Clock.Now().Add(t.target.Account.Ahead()))
	if err != nil {
		return err
	}
	if err := c.bindTo(ctx, pvc, t.location); err != nil {
		return err
	}
	err = t.writer.Create(ctx, made)
	if class := apierror.Of(err, apierror.Create); class.Refusal() {
		if err := c.annotate(ctx, pvc, location{}); err != nil {
			c.options.Logger.Error(
				err, "Leaving the annotation followed-to, which binds nobody without a copy", "claim", key,
			)
		}
		return refusedError(key, class, "is not taken there: "+err.Error())
	}
	if err != nil {
		return fmt.Errorf("making claim %q in target %q: %w", key.Name, t.name, err)
	}
	c.options.Logger.Info("Made a claim", "claim", key, "target", t.name)
	if here := c.source.storageClasses().Entry(original.class); here != nil && here.immediate {
		c.recordVolumeUnused(pvc, original.class, t)
	}
	return nil
}

// restore writes down again where the claim is, if it has lost the annotation: the next leader remembers nothing.
func (c *Claims) restore(ctx context.Context, pvc *corev1.PersistentVolumeClaim, s situation) error {
	if s.original == nil || s.original.followedTo.name == "" || followedTo(pvc).name != "" {
		return nil
	}
	return c.bindTo(ctx, pvc, s.original.followedTo)
}

// bindTo writes down where the claim is. It fails if the claim has changed since it was read.
func (c *Claims) bindTo(ctx context.Context, pvc *corev1.PersistentVolumeClaim, to location) error {
	if at := followedTo(pvc); at == to || at.name == to.name && to.clusterID == "" {
		return nil
	}
	return c.annotate(ctx, pvc, to)
}

// annotate sets the annotations that say where the claim is. An empty location says that the claim is nowhere. The
// patch has the resource version as a precondition, and updates it in pvc.
func (c *Claims) annotate(ctx context.Context, pvc *corev1.PersistentVolumeClaim, to location) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	data, err := patch.Merge(pvc.UID, map[string]any{
		"resourceVersion": pvc.ResourceVersion,
		"annotations": map[string]any{
			v1alpha1.AnnotationFollowedTo:          to.name,
			v1alpha1.AnnotationFollowedToClusterID: orNull(to.clusterID),
		},
	}, nil)
	if err != nil {
		return err
	}
	if err := c.source.client.Patch(
		ctx,
		pvc,
		client.RawPatch(types.MergePatchType, data),
		client.FieldOwner(v1alpha1.FieldOwner),
	); err != nil {
		return fmt.Errorf("writing down where claim %q is: %w", pvc.Name, err)
	}
	now := claimOf(pvc, c.source.sourceID)
	c.records.note(client.ObjectKeyFromObject(pvc), &now)
	return nil
}

// orNull returns null for an empty value, so that a merge patch removes it.
func orNull(value string) any {
	if value == "" {
		return nil
	}
	return value
}

// desiredCopy returns the copy of a claim: empty, with the same size and access modes. now is by the target's clock,
// because originOf compares it with the creation of the copy.
func desiredCopy(pvc *corev1.PersistentVolumeClaim, class *string, now time.Time) (*unstructured.Unstructured, error) {
	made := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{
			APIVersion: corev1.SchemeGroupVersion.String(),
			Kind:       needs.PersistentVolumeClaims.Kind(),
		},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   pvc.Namespace,
			Name:        pvc.Name,
			Labels:      map[string]string{v1alpha1.LabelParentUID: string(pvc.UID)},
			Annotations: map[string]string{v1alpha1.AnnotationNeededAt: now.UTC().Format(time.RFC3339)},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      pvc.Spec.AccessModes,
			Resources:        corev1.VolumeResourceRequirements{Requests: pvc.Spec.Resources.Requests},
			Selector:         pvc.Spec.Selector,
			StorageClassName: class,
			VolumeMode:       pvc.Spec.VolumeMode,
		},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made)
	if err != nil {
		return nil, fmt.Errorf("converting a claim: %w", err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}
