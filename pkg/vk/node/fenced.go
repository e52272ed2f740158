package node

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// lookAtRenewals is how often somebody looks whether renewals are sent to a target that is not connected.
	lookAtRenewals = 10 * time.Second
	// calm is how long no renewal is sent before a node that is Unknown becomes NotReady. Attempts to connect send
	// renewals, and are less apart. Kubernetes sees a node that is Unknown for so long, and evictions begin anew.
	calm = time.Minute
)

// isSpared says whether the pods of a target that is not connected must not be evicted now: the target fences delegates
// of proxies on the node, and may have heard of this source since evictions began to count. So the time until the
// delegates are fenced began anew, and evictions must begin anew, too, and not earlier.
func (r *Reconciler) isSpared(ctx context.Context, f facts) (bool, error) {
	var sent time.Time
	if r.options.LastRenewal != nil {
		sent = r.options.LastRenewal(f.key)
	}
	if !mayHaveHeard(f, sent) {
		return false, nil
	}
	proxies, err := r.options.Proxies.List(ctx, translate.VirtualNodeName(f.key))
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(proxies.Items, func(proxy corev1.Pod) bool {
		return proxy.Annotations[v1alpha1.AnnotationFencedAfter] != ""
	}), nil
}

// mayHaveHeard says whether a target that is not connected may have heard of this source since its node became
// NotReady, or hears of it now. sent is when the last renewal was sent. It is not before this process began to lead: an
// earlier leader may have sent one until then. Only times of this process are compared: the one in the condition may be
// of another clock, or of before this one was set.
func mayHaveHeard(f facts, sent time.Time) bool {
	was := nodeCondition(f.existing, corev1.NodeReady)
	switch reason := evicts(f.status); {
	case reason == "":
		return false
	case reason == v1alpha1.ReasonFlapping: // Renewals go on.
		return true
	case sent.IsZero(), was == nil, was.Status == corev1.ConditionTrue:
		return false
	case was.Status == corev1.ConditionFalse:
		return !sent.Before(f.notReadySince)
	}
	return f.now.Sub(sent) < calm
}

// noteReadiness notes since when this process wants a node NotReady.
func (r *Reconciler) noteReadiness(f facts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if readyCondition(f).Status != corev1.ConditionFalse {
		delete(r.notReady, f.key)
	} else if _, known := r.notReady[f.key]; !known {
		r.notReady[f.key] = f.now.Time
	}
}

// notReadySince returns since when this process wants a node NotReady, or the zero time.
func (r *Reconciler) notReadySince(key types.NamespacedName) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.notReady[key]
}

// evicts returns why a target is not connected, if this costs it its pods, and an empty string otherwise.
func evicts(status v1alpha1.TargetStatus) string {
	connected := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConnected)
	if connected == nil || connected.Status == metav1.ConditionTrue || v1alpha1.LeavesNodeUnknown(connected.Reason) {
		return ""
	}
	return connected.Reason
}

// nextLook returns when to reconcile again, given when the node's controller needs it, or 0 for never. No event says
// that a renewal is sent.
func nextLook(f facts, next time.Duration) time.Duration {
	if evicts(f.status) == "" || next > 0 && next < lookAtRenewals {
		return next
	}
	return lookAtRenewals
}
