package garbagecollection

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// kind of objects that sources copy.
type kind struct {
	schema.GroupVersionResource
	// referred says that pods refer to such objects.
	referred bool
}

// kinds are in the order in which they begin to be watched: what comes after Ingresses waits for them.
func kinds() []kind {
	core := schema.GroupVersion{Version: "v1"}
	return []kind{
		{core.WithResource(string(needs.ConfigMaps)), true},
		{core.WithResource(string(needs.ServiceAccounts)), true},
		{core.WithResource("services"), false},
		{schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}, false},
		ingresses(),
		{core.WithResource(string(needs.Secrets)), true}, // Last: Ingresses use them.
	}
}

func ingresses() kind {
	return kind{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}, false}
}
