package server

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// startTimeout bounds the wait for the start of an ephemeral container.
	startTimeout = 10 * time.Second
	// startCheck is the time between two looks into the cache.
	startCheck = 250 * time.Millisecond
)

// waitForStart waits until an ephemeral container of the proxy has started, but not for long. Other containers it does
// not wait for. Somebody adds ephemeral containers to a pod that runs, so kubectl logs --all-containers, which gives up
// at the first error, would fail for a while. The delegate gets such a container a little later than the proxy.
func (s *Server) waitForStart(ctx context.Context, proxy *corev1.Pod, container string, d destination) {
	is := func(c corev1.EphemeralContainer) bool { return c.Name == container }
	if !slices.ContainsFunc(proxy.Spec.EphemeralContainers, is) {
		return
	}
	end := s.options.Clock.Now().Add(startTimeout)
	for !s.started(ctx, container, d) && s.options.Clock.Now().Before(end) {
		select {
		case <-s.options.Clock.After(startCheck):
		case <-ctx.Done():
			return
		}
	}
}

// started says whether an ephemeral container of the delegate has started, as of the cache.
func (s *Server) started(ctx context.Context, container string, d destination) bool {
	chaperon := &v1alpha1.PodChaperon{}
	key := types.NamespacedName{Namespace: d.namespace, Name: d.pod}
	if err := d.target.Client.Get(ctx, key, chaperon, client.UnsafeDisableDeepCopy); err != nil {
		return false
	}
	return slices.ContainsFunc(chaperon.Status.EphemeralContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == container && (c.State.Running != nil || c.State.Terminated != nil)
	})
}
