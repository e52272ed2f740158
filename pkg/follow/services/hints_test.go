package services

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

func distributed(value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.TrafficDistribution = &value }
}

// proxyPrefers returns what kube-proxy makes of the hints of ready endpoints, on a node in a zone. It is the rule of
// topologyModeFromHints in pkg/proxy/topology.go of k8s.io/kubernetes.
func proxyPrefers(endpoints []discoveryv1.Endpoint, node, zone string) string {
	allNodes, allZones, thisNode, thisZone := true, true, false, false
	for _, endpoint := range endpoints {
		hints := ptr.Deref(endpoint.Hints, discoveryv1.EndpointHints{})
		allNodes, allZones = allNodes && len(hints.ForNodes) > 0, allZones && len(hints.ForZones) > 0
		for _, hint := range hints.ForNodes {
			thisNode = thisNode || hint.Name == node
		}
		for _, hint := range hints.ForZones {
			thisZone = thisZone || hint.Name == zone
		}
	}
	switch {
	case allNodes && thisNode:
		return corev1.ServiceTrafficDistributionPreferSameNode
	case allZones && thisZone:
		return corev1.ServiceTrafficDistributionPreferSameZone
	default:
		return ""
	}
}

// TestEndpointsOfOtherClustersKeepThePreferenceForThoseNearby has a target with an endpoint on node n in zone a, and
// another cluster whose nodes may have the same names.
func TestEndpointsOfOtherClustersKeepThePreferenceForThoseNearby(t *testing.T) {
	const (
		sameNode, sameZone = corev1.ServiceTrafficDistributionPreferSameNode,
			corev1.ServiceTrafficDistributionPreferSameZone
		preferClose = corev1.ServiceTrafficDistributionPreferClose
	)
	zoned := func(zone string) *discoveryv1.EndpointHints {
		return &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
	}
	for name, test := range map[string]struct {
		service                                *corev1.Service
		zone                                   string // of the endpoint elsewhere
		hints                                  *discoveryv1.EndpointHints
		onTheNode, inTheZone, inTheOther, none string // what kube-proxy prefers there
	}{
		"the same node": {
			service: web(distributed(sameNode)), onTheNode: sameNode, inTheZone: sameZone,
		},
		"the same node, and an endpoint in a zone that both clusters have": {
			service: web(distributed(sameNode)), zone: "b",
			onTheNode: sameNode, inTheZone: sameZone, inTheOther: sameZone,
		},
		"the same zone": {
			service: web(distributed(sameZone)), onTheNode: sameZone, inTheZone: sameZone,
		},
		"what is close, with the hints of the source": {
			service: web(distributed(preferClose)), zone: "b", hints: zoned("b"),
			onTheNode: sameZone, inTheZone: sameZone, inTheOther: sameZone,
		},
		"the mode of topology": {
			service:   web(annotated(corev1.AnnotationTopologyMode, "Auto")),
			onTheNode: sameZone, inTheZone: sameZone,
		},
		"no preference": {service: web(), zone: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			slice := endpointsOf("web-1", "n")
			slice.Endpoints[0].Hints = test.hints
			if test.zone != "" {
				slice.Endpoints[0].Zone = &test.zone
			}
			own := discoveryv1.Endpoint{Hints: &discoveryv1.EndpointHints{}}
			if p := preferenceOf(test.service); p.zones { // as the target's own controller of EndpointSlices
				own.Hints.ForZones = []discoveryv1.ForZone{{Name: "a"}}
				if p.nodes {
					own.Hints.ForNodes = []discoveryv1.ForNode{{Name: "n"}}
				}
			}
			all := []discoveryv1.Endpoint{own}
			slices := []*discoveryv1.EndpointSlice{slice}
			for _, slice := range toC2().endpoints(original{service: test.service, slices: slices}) {
				all = append(all, slice.Endpoints...)
			}
			want := []string{test.onTheNode, test.inTheZone, test.inTheOther, test.none}
			got := []string{
				proxyPrefers(all, "n", "a"), proxyPrefers(all, "m", "a"), proxyPrefers(all, "o", "b"),
				proxyPrefers(all, "o", ""),
			}
			if diff := cmp.Diff(want, got); diff != "" || len(all) != 2 {
				t.Errorf("%d endpoints; kube-proxy prefers (-want +got):\n%s", len(all), diff)
			}
			if len(all[1].Addresses) == 0 || proxyPrefers(all[1:], "n", "") == sameNode {
				t.Errorf("a node of the target has the name of another cluster's: %v", all[1])
			}
		})
	}
}
