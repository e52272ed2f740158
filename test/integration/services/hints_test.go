package services

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestEndpointsOfOtherClustersHaveHintsAboutNoNodeOfTheTarget has API servers that check hints, and a Service that
// prefers endpoints on the same node.
func TestEndpointsOfOtherClustersHaveHintsAboutNoNodeOfTheTarget(t *testing.T) {
	_, c2, c3 := engaged(t)
	service, _ := createFollowed(t, c2, c3, "web", func(service *corev1.Service) {
		service.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
	})
	c := waitForCopy(t, c2, service)
	env.ExpectEqual(t, "traffic distribution", service.Spec.TrafficDistribution, c.Spec.TrafficDistribution)
	waitForAddresses(t, c2, service, "10.1.0.1", "10.3.0.1")
	for _, endpoint := range copiedEndpoints(t, c2, service) {
		hints := ptr.Deref(endpoint.Hints, discoveryv1.EndpointHints{})
		if len(hints.ForZones) != 1 || len(hints.ForNodes) != 1 {
			t.Errorf("endpoint %v has the hints %+v, want one zone and one node", endpoint.Addresses, hints)
		}
	}
	env.Change(t, source, service, func(service *corev1.Service) { service.Spec.TrafficDistribution = nil })
	env.Eventually(t, func(context.Context) error {
		for _, endpoint := range copiedEndpoints(t, c2, service) {
			if endpoint.Hints != nil {
				return fmt.Errorf("endpoint %v still has hints", endpoint.Addresses)
			}
		}
		return nil
	})
}

// copiedEndpoints returns the endpoints of a Service that the source wrote to a target.
func copiedEndpoints(t *testing.T, in *env.Target, service *corev1.Service) []discoveryv1.Endpoint {
	t.Helper()
	list := &discoveryv1.EndpointSliceList{}
	env.Must(t, in.Cluster.Client.List(t.Context(), list, client.InNamespace(service.Namespace), client.MatchingLabels{
		discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: v1alpha1.FieldOwner,
		v1alpha1.LabelParentClusterID: sourceID,
	}))
	var all []discoveryv1.Endpoint
	for _, slice := range list.Items {
		all = append(all, slice.Endpoints...)
	}
	return all
}
