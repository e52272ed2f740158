package garbagecollection

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// copyKind is a kind of objects that sources copy.
type copyKind struct {
	schema.GroupVersionResource
	// referred says that pods refer to objects of this kind.
	referred bool
}

// copyKinds returns the kinds in the order in which their watches start. The kinds after Ingresses wait for them.
func copyKinds() []copyKind {
	core := schema.GroupVersion{Version: "v1"}
	return []copyKind{
		{core.WithResource(string(needs.ConfigMaps)), true},
		serviceAccounts(),
		services(),
		endpointSlices(),
		ingresses(),
		{core.WithResource(string(needs.Secrets)), true}, // Last: Ingresses use them.
	}
}

func serviceAccounts() copyKind {
	return copyKind{schema.GroupVersionResource{Version: "v1", Resource: string(needs.ServiceAccounts)}, true}
}

func services() copyKind {
	return copyKind{schema.GroupVersionResource{Version: "v1", Resource: "services"}, false}
}

func endpointSlices() copyKind {
	discovery := schema.GroupVersion{Group: "discovery.k8s.io", Version: "v1"}
	return copyKind{discovery.WithResource("endpointslices"), false}
}

func ingresses() copyKind {
	networking := schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}
	return copyKind{networking.WithResource("ingresses"), false}
}
