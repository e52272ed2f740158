package services

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

const (
	// If somebody undoes a rewritten selector within disputeWindow, that is counted. From undoneTwice on, we rewrite it
	// once per disputePause.
	disputeWindow = 10 * time.Minute
	undoneTwice   = 2
	disputePause  = 5 * time.Minute
)

// dispute is about the selector of one Service.
type dispute struct {
	at     time.Time // when we last wrote the selector
	undone int
}

// reconcileSource updates a Service in the source: its selector, and the finalizers of the old system.
func (f *Follower) reconcileSource(ctx context.Context, i item) (reconcile.Result, error) {
	if i.kind == kindRestore {
		return reconcile.Result{}, f.restoreSelector(ctx, i.NamespacedName)
	}
	object := f.originals.objectOf(i)
	if object == nil {
		f.forgetSelector(i.NamespacedName)
		return reconcile.Result{}, nil
	}
	if slices.ContainsFunc(object.GetFinalizers(), isOurs) {
		return reconcile.Result{}, f.removeFinalizers(ctx, object)
	}
	service, ok := object.(*corev1.Service)
	if ok {
		f.recordExternalName(service)
	}
	if ok && applied(service) && !rewritten(service) { // An earlier release of our fields failed.
		return reconcile.Result{}, f.readAndRelease(ctx, i.NamespacedName)
	}
	if !ok || !merged(service) && !rewritten(service) {
		f.forgetSelector(i.NamespacedName)
		return reconcile.Result{}, nil
	}
	v, err := f.decideSelector(ctx, i.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	r, err := rewrite(service, v.follow, f.options.Source)
	if err != nil {
		f.recordInvalid(service, err)
		return reconcile.Result{}, nil // Only a change of the Service helps.
	}
	if r == nil {
		return reconcile.Result{RequeueAfter: v.wait}, nil
	}
	return f.writeSelector(ctx, service, r)
}

// decideSelector says whether the selector should find delegates. It should if it would find proxies otherwise, and
// every target has what it needs. Once the selector is rewritten, EndpointSlices do not show proxies, so we ask for
// pods: after a change, and after delegates are gone.
func (f *Follower) decideSelector(ctx context.Context, key types.NamespacedName) (decision, error) {
	from, known := f.originals.service(key)
	switch {
	case !known || !from.eligible() || !merged(from.service):
		return decision{}, nil
	case !rewritten(from.service):
		return decision{follow: from.proxied(f.originals.isVirtual) && f.servedEverywhere(key)}, nil
	}
	user, err := userSelector(from.service)
	if err != nil {
		return decision{}, nil // rewrite reports the error.
	}
	found, err := f.selectsProxies(ctx, key.Namespace, user)
	if err != nil {
		return decision{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if found {
		delete(f.idle, key)
		return decision{follow: true}, nil
	}
	v := followForGrace(f.idle[key], f.options.Clock.Now())
	f.idle[key] = v.idle
	return v, nil
}

func (f *Follower) servedEverywhere(key types.NamespacedName) bool {
	return !slices.ContainsFunc(
		f.copiers.All(),
		func(c *copier) bool { return c.target.Allows(key.Namespace) && !c.serves(key) },
	)
}

func (f *Follower) selectsProxies(ctx context.Context, namespace string, selector map[string]string) (bool, error) {
	if len(selector) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	err := f.options.APIReader.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(selector),
		client.MatchingFields{"spec.schedulerName": v1alpha1.SchedulerName}, client.Limit(1))
	if err != nil {
		return false, fmt.Errorf("looking for proxies: %w", err)
	}
	return len(pods.Items) > 0, nil
}

// recheckSelectors enqueues, after a while, the rewritten selectors of a namespace that lost a delegate.
func (f *Follower) recheckSelectors(namespace string) {
	n, _ := f.originals.namespaceOf(namespace)
	if n == nil {
		return
	}
	for _, service := range n.written() {
		f.selectors.Queue.AddAfter(item{kindService, client.ObjectKeyFromObject(service)}, grace)
	}
}

// writeSelector writes the selector, unless somebody else keeps writing it.
func (f *Follower) writeSelector(ctx context.Context, service *corev1.Service, r *rewriting) (reconcile.Result, error) {
	key := client.ObjectKeyFromObject(service)
	now := f.options.Clock.Now()
	f.mu.RLock()
	q := f.disputes[key]
	f.mu.RUnlock()
	if wait := disputePause - now.Sub(q.at); r.original != "" && q.undone >= undoneTwice && wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	live, err := f.applySelector(ctx, service, r)
	if client.IgnoreNotFound(err) == nil && err != nil || apierrors.IsConflict(err) {
		return reconcile.Result{}, nil // The Service changed. The watch will enqueue it.
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if r.original == "" {
		f.forgetSelector(key)
		return reconcile.Result{}, f.releaseFields(ctx, live)
	}
	if now.Sub(q.at) < disputeWindow {
		q.undone++
	} else {
		q.undone = 0
	}
	if q.undone == undoneTwice {
		f.recordDisputed(service)
	}
	q.at = now
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disputes[key] = q
	return reconcile.Result{}, nil
}

func (f *Follower) forgetSelector(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.idle, key)
	delete(f.disputes, key)
}

// applySelector applies the selector, as a whole, unless the Service has changed since we read it.
func (f *Follower) applySelector(
	ctx context.Context,
	service *corev1.Service,
	r *rewriting,
) (*unstructured.Unstructured, error) {
	metadata := map[string]any{
		"namespace": service.Namespace, "name": service.Name,
		"uid": string(service.UID), "resourceVersion": service.ResourceVersion,
	}
	if r.original != "" {
		metadata["annotations"] = map[string]any{
			v1alpha1.AnnotationOriginalSelector: r.original,
			v1alpha1.AnnotationGlobal:           "true",
		}
	}
	object := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": metadata},
	}
	if len(r.selector) > 0 {
		if err := unstructured.SetNestedStringMap(object.Object, r.selector, "spec", "selector"); err != nil {
			return nil, fmt.Errorf("encoding the selector: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	err := f.options.Client.Apply(
		ctx,
		client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(v1alpha1.FieldOwner),
		client.ForceOwnership,
	)
	if err != nil {
		return nil, fmt.Errorf("writing the selector: %w", err)
	}
	return object, nil
}

func isOurs(finalizer string) bool { return strings.HasPrefix(finalizer, v1alpha1.GroupName+"/") }

// removeFinalizers removes the finalizers of the old system.
func (f *Follower) removeFinalizers(ctx context.Context, object client.Object) error {
	changed := deepCopy(object)
	changed.SetFinalizers(slices.DeleteFunc(changed.GetFinalizers(), isOurs))
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	err := f.options.Client.Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing finalizers: %w", err)
	}
	return nil
}
