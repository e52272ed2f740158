package feedback

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// annotationsPerSecond is how often annotations of one target are written to proxies, after annotationsBurst.
	annotationsPerSecond, annotationsBurst = 50, 1000
	// annotateLater is how long annotations wait that the budget does not allow.
	annotateLater = 5 * time.Second
)

// lackedAnnotations returns the annotations that the proxy, which is bound to the target's node, is to have of its
// delegate, or nil if it has them. It compares two hashes, so it costs no request.
func (s *state) lackedAnnotations(chaperon *v1alpha1.PodChaperon) *translate.TakenAnnotations {
	taken := translate.TakeAnnotations(s.wanted, &chaperon.Status)
	if taken.In(s.proxy) {
		return nil
	}
	return &taken
}

// annotate gives the proxy, as the API server has it, the annotations of its delegate. The cache does not know which
// annotations the user gave it.
func (r *reconciler) annotate(ctx context.Context, proxy *corev1.Pod, p *plan) error {
	if !r.annotations.AllowN(r.options.Clock.Now(), 1) {
		p.waitFor(annotateLater)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	whole := &corev1.Pod{}
	if err := r.options.APIReader.Get(ctx, client.ObjectKeyFromObject(proxy), whole); err != nil {
		return client.IgnoreNotFound(err)
	}
	if whole.UID != proxy.UID || whole.Spec.NodeName != r.target.NodeName || p.annotations.In(whole) {
		return nil // The cache lags, and its event follows.
	}
	given := whole.DeepCopy()
	p.annotations.Give(given)
	patch := client.MergeFromWithOptions(whole, client.MergeFromWithOptimisticLock{})
	err := r.options.Client.Patch(ctx, given, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if apierror.Of(err, apierror.Existing).Refusal() {
		r.feedback.recordAnnotationsMissing(proxy, apierror.Message(err))
		return nil // Another change of the delegate or of the proxy may help.
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("giving the pod annotations of its delegate: %w", err)
	}
	if keys := p.annotations.TooLarge(); err == nil && len(keys) > 0 {
		r.feedback.recordAnnotationsMissing(proxy, "they are too large: "+strings.Join(keys, ", "))
	}
	return nil
}
