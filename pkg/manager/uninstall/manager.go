package uninstall

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stopTimeout is more than the manager takes to stop in order, after which the kubelet kills it.
const stopTimeout = time.Minute

// managerState is what the Deployment of the manager says.
type managerState struct {
	exists   bool
	runs     bool // at least one replica is ready
	selector labels.Selector
}

func (r *run) readManager(ctx context.Context) (managerState, error) {
	deployment := &appsv1.Deployment{}
	err := r.client.Get(ctx, r.Deployment, deployment)
	if apierrors.IsNotFound(err) {
		return managerState{}, nil
	}
	if err != nil {
		return managerState{}, fmt.Errorf("getting the manager's Deployment: %w", err)
	}
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return managerState{}, fmt.Errorf("reading the selector of the manager's Deployment: %w", err)
	}
	return managerState{exists: true, runs: deployment.Status.ReadyReplicas > 0, selector: selector}, nil
}

// stop stops the manager, and waits until its pods are gone.
func (r *run) stop(ctx context.Context, manager managerState) error {
	if !manager.exists {
		return nil
	}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Deployment.Namespace, Name: r.Deployment.Name},
	}
	none := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))
	answer := &client.SubResourcePatchOptions{SubResourceBody: &autoscalingv1.Scale{}}
	err := r.client.SubResource("scale").Patch(ctx, deployment, none, answer)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("stopping the manager: %w", err)
	}
	until := r.clock.Now().Add(stopTimeout)
	r.log.Info("Waiting until the manager has stopped", "until", until.UTC().Format(time.RFC3339))
	gone, err := r.await(ctx, until, func(ctx context.Context) (bool, error) {
		pods := &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := r.client.List(ctx, pods, client.InNamespace(r.Deployment.Namespace),
			client.MatchingLabelsSelector{Selector: manager.selector})
		return len(pods.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting until the manager has stopped: %w", err)
	}
	if !gone {
		r.log.Info("The manager's pods are still there, perhaps on a node that does not answer; going on")
	}
	return nil
}

// deleteLeaderLease deletes the Lease of the manager's leader, which is no object of the release.
func (r *run) deleteLeaderLease(ctx context.Context) error {
	election := r.Configuration.LeaderElection
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: election.Namespace, Name: election.Name},
	}
	if lease.Namespace == "" {
		lease.Namespace = r.Deployment.Namespace
	}
	if err := r.client.Delete(ctx, lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the leader's Lease: %w", err)
	}
	return nil
}
