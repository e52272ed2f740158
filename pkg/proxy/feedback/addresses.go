package feedback

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// registerAddresses makes the controller of pods decide anew about addresses that come into use or become free, and
// about those of a ClusterTarget whose ranges change.
func (f *Feedback) registerAddresses(c controller.Controller, mgr manager.Manager) error {
	f.options.Addresses.OnChange(f.wake.Wake)
	if err := c.Watch(&f.wake); err != nil {
		return fmt.Errorf("watching addresses: %w", err)
	}
	ranges := handler.TypedFuncs[*v1alpha1.ClusterTarget, reconcile.Request]{
		UpdateFunc: func(
			ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.ClusterTarget], _ requestQueue,
		) {
			was, is := e.ObjectOld.Spec.AllowedPodCIDRs, e.ObjectNew.Spec.AllowedPodCIDRs
			if !equality.Semantic.DeepEqual(was, is) {
				f.rangesChanged(ctx, client.ObjectKeyFromObject(e.ObjectNew))
			}
		},
	}
	if err := c.Watch(source.Kind(mgr.GetCache(), &v1alpha1.ClusterTarget{}, ranges)); err != nil {
		return fmt.Errorf("watching ClusterTargets: %w", err)
	}
	return nil
}

func (f *Feedback) rangesChanged(ctx context.Context, key types.NamespacedName) {
	for _, to := range f.queues.All() {
		if to.target.Key != key {
			continue
		}
		if err := f.enqueueProxies(ctx, to.target, to.queue); err != nil {
			log.FromContext(ctx).Error(err, "Applying the ranges of a target", "target", key)
		}
	}
}

// vetter returns what decides about the addresses of a proxy.
func (r *reconciler) vetter(ctx context.Context, proxy *corev1.Pod) (addresses.Vet, error) {
	ranges, err := r.ranges(ctx)
	return func(address netip.Addr) *addresses.RefusedError {
		return r.options.Addresses.Vet(proxy, ranges, r.target.Itself, address)
	}, err
}

// ranges returns the ranges of the target's pods. A ClusterTarget that is gone has no ranges: it is being left.
func (r *reconciler) ranges(ctx context.Context) (addresses.Ranges, error) {
	if r.target.Key.Namespace != "" {
		return rangesOfTenants(r.options.Tenants), nil
	}
	target := &v1alpha1.ClusterTarget{}
	err := r.options.Client.Get(ctx, r.target.Key, target, client.UnsafeDisableDeepCopy)
	if err := client.IgnoreNotFound(err); err != nil {
		return addresses.Ranges{}, fmt.Errorf("getting ClusterTarget %q: %w", r.target.Key.Name, err)
	}
	return addresses.RangesOf(target.Spec.AllowedPodCIDRs,
		"spec.allowedPodCIDRs of ClusterTarget "+r.target.Key.Name), nil
}

// rangesOfTenants returns the ranges of the pods of Targets. When the limits are enforced, there are none by default.
func rangesOfTenants(tenants configv1alpha1.Tenants) addresses.Ranges {
	ranges := addresses.RangesOf(tenants.AllowedPodCIDRs, "the chart's tenants.allowedPodCIDRs")
	ranges.Limited = ranges.Limited || tenants.Enforce
	return ranges
}

// vetUse decides about an address by its use alone, for a proxy whose target is not engaged or lost.
func (f *Feedback) vetUse(proxy *corev1.Pod) addresses.Vet {
	return func(address netip.Addr) *addresses.RefusedError {
		return f.options.Addresses.Vet(proxy, addresses.Ranges{}, false, address)
	}
}

// mustHide says whether a proxy shows an address that it must not.
func (f *Feedback) mustHide(proxy *corev1.Pod) bool {
	return addresses.MustHide(&proxy.Status, f.vetUse(proxy))
}

// reviewAddresses has the target's workers decide anew what a proxy shows. If the target is lost or not engaged, it
// removes the addresses that are in use now.
func (f *Feedback) reviewAddresses(ctx context.Context, proxy *corev1.Pod) error {
	for _, to := range f.queues.All() {
		if to.target.NodeName == proxy.Spec.NodeName && to.target.Reachable() {
			f.route(proxy, false)
			return nil
		}
	}
	if !f.mustHide(proxy) {
		return nil
	}
	status := proxy.Status.DeepCopy()
	addresses.Show(status, proxy.Status, f.vetUse(proxy), metav1.NewTime(f.options.Clock.Now()))
	return f.showStatus(ctx, proxy, *status)
}

// showStatus writes a proxy's status, if the cached proxy is the newest. Events say if the delegate lacks a change or
// fields, and if the proxy does not show an address, unless only the administrators' ranges forbid it.
func (f *Feedback) showStatus(ctx context.Context, proxy *corev1.Pod, status corev1.PodStatus) error {
	_, err := f.patchStatus(ctx, proxy, status)
	if err != nil && ignoreGone(err) == nil {
		return nil // The event of a newer version follows.
	}
	f.recordChanges(proxy, &status)
	f.recordFields(proxy, &status)
	if apierrors.IsInvalid(err) {
		f.recordStatusRefused(proxy, apierror.Message(err))
	}
	if err != nil {
		return err
	}
	was := translate.PodCondition(proxy.Status.Conditions, v1alpha1.ConditionAddresses)
	is := translate.PodCondition(status.Conditions, v1alpha1.ConditionAddresses)
	news := is != nil && (was == nil || was.Message != is.Message)
	if news && is.Reason == v1alpha1.ReasonAddressRefused {
		f.recordAddressRefused(proxy, is.Message)
	}
	return nil
}
