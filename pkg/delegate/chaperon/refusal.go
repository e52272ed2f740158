package chaperon

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/restriction"
)

// refusedForGood says whether another attempt to create this delegate would not help. The rules of a ClusterSource or
// Source forbid the delegate. Or the API server refuses it: validation, a missing namespace or service account, quota,
// PodSecurity, a webhook.
func refusedForGood(err error) bool {
	forbidden := (*restriction.RefusedError)(nil)
	return errors.As(err, &forbidden) || apierror.Of(err, apierror.Create).Refusal()
}

// refuseDelegate records that the delegate cannot be created, once there surely is none. The source then places the pod
// elsewhere. A refusal does not prove that there is no delegate: the API server applies quotas before it looks at the
// name. An earlier leader may have created the delegate, or a request that was not answered, and the cache may lag. So
// the API server is asked for the delegate. A refusal that the status does not show costs no such request.
func (r *Reconciler) refuseDelegate(
	ctx context.Context, chaperon *v1alpha1.PodChaperon, message string,
) (reconcile.Result, error) {
	logger := log.FromContext(ctx)
	logger.Info("The delegate was refused", "message", message)
	now := r.clock.Now() // The answer below shows what was created until now.
	d := decideRefused(chaperon, message, now)
	if d.status == nil { // An earlier delegate was lost, and the status goes on saying so.
		r.recordRefused(chaperon, message)
		return r.carryOut(ctx, chaperon, nil, d)
	}
	pod := &corev1.Pod{}
	err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(chaperon), pod)
	if err == nil {
		logger.Info("A pod has the name of the delegate that was refused", "uid", pod.UID)
		return r.carryOut(ctx, chaperon, pod, decide(chaperon, pod, false, now))
	}
	if !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("looking whether the delegate exists: %w", err)
	}
	if wait := r.unanswered.wait(chaperon, now); wait > 0 {
		logger.Info("An earlier request may still create the delegate. The refusal is shown later", "wait", wait)
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	return r.carryOut(ctx, chaperon, nil, d)
}
