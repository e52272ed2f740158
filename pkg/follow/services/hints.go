package services

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// elsewhere is a zone, and a node, that no target has.
const elsewhere = "elsewhere.multicluster.admiralty.io"

// preference says which hints the endpoints of a Service need. By them, the target prefers endpoints in the zone or on
// the node of a client. kube-proxy heeds hints about zones only if each ready endpoint has one. The same holds for
// nodes: see topologyModeFromHints in pkg/proxy/topology.go of k8s.io/kubernetes. So without hints, one endpoint of
// another cluster would switch the preference off for all.
type preference struct{ zones, nodes bool }

func preferenceOf(service *corev1.Service) preference {
	switch ptr.Deref(service.Spec.TrafficDistribution, "") {
	case corev1.ServiceTrafficDistributionPreferSameNode: // If a node has no endpoint, its zone counts.
		return preference{zones: true, nodes: true}
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone:
		return preference{zones: true}
	}
	mode := service.Annotations[corev1.AnnotationTopologyMode]
	return preference{zones: mode == "Auto" || mode == "auto"}
}

// hints returns the hints of an endpoint of another cluster. It keeps those about zones, which several clusters may
// share. An endpoint in no known zone is elsewhere, and on a node it always is: clusters may have nodes of one name.
func (p preference) hints(original *discoveryv1.Endpoint) *discoveryv1.EndpointHints {
	hints := &discoveryv1.EndpointHints{}
	if original.Hints != nil {
		hints.ForZones = slices.Clone(original.Hints.ForZones)
	}
	if p.zones && len(hints.ForZones) == 0 {
		hints.ForZones = []discoveryv1.ForZone{{Name: cmp.Or(ptr.Deref(original.Zone, ""), elsewhere)}}
	}
	if p.nodes {
		hints.ForNodes = []discoveryv1.ForNode{{Name: elsewhere}}
	}
	if len(hints.ForZones)+len(hints.ForNodes) == 0 {
		return nil
	}
	return hints
}
