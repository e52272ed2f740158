package addresses

import (
	"context"
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

// AllowedForEndpoints is the chart's value with the ranges to which endpoints of sources may lead.
const AllowedForEndpoints = "sources.endpoints.allowedCIDRs"

// Endpoints decides where EndpointSlices that sources write in this cluster may lead: to pods of other clusters, and to
// delegates of the same source in the same namespace. It is used in targets.
type Endpoints struct {
	InUse  *InUse
	Ranges Ranges
}

// Wait waits until all addresses in use are known.
func (e Endpoints) Wait(ctx context.Context) error { return e.InUse.Wait(ctx) }

// Check returns the reason why a source may not have an address in its EndpointSlice, or nil. Addresses that the
// EndpointSlice had before are not checked, so that nobody is kept from removing others. The caller has called Wait.
func (e Endpoints) Check(slice, before *discoveryv1.EndpointSlice) *RefusedError {
	had := map[string]bool{}
	for _, text := range addressesOf(before) {
		had[text] = true
	}
	for _, text := range addressesOf(slice) {
		if had[text] {
			continue
		}
		if refused := e.check(slice, text); refused != nil {
			return refused
		}
	}
	return nil
}

func (e Endpoints) check(slice *discoveryv1.EndpointSlice, text string) *RefusedError {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return &RefusedError{
			Address: wire.Shorten(text, maxText), Reason: "no address of a pod; write endpoints of type IPv4 or IPv6",
		}
	}
	address = address.Unmap()
	if refused := checkForm(address); refused != nil {
		return refused
	}
	by, own := e.InUse.userForEndpoints(slice, address)
	switch {
	case own:
		return nil
	case by != "":
		return &RefusedError{
			Address: address.String(),
			Reason: "in use by " + string(by) + " of this cluster; if Services are to lead to pods of the source " +
				"cluster or of its other targets, give the clusters different ranges of addresses",
		}
	case !e.Ranges.contains(address):
		return &RefusedError{
			Address: address.String(), OutOfRange: true,
			Reason: "outside of the ranges in " + e.Ranges.Source + "; if pods of the source cluster or of its other " +
				"targets may have it, ask the administrators of this cluster to add its range",
		}
	}
	return nil
}

// userForEndpoints returns what uses an address, if anything does, and whether that is a delegate of the source that
// wrote the EndpointSlice, in its namespace. Two targets of a source may lead to this cluster.
func (u *InUse) userForEndpoints(slice *discoveryv1.EndpointSlice, address netip.Addr) (by kind, own bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	source := slice.Labels[v1alpha1.LabelParentClusterID]
	return u.userOf(address, func(h *holder) bool {
		return h.kind == ofDelegate && source != "" && h.source == source && h.id.Namespace == slice.Namespace
	})
}

// OnEndpointsChange sets the function that is called with an EndpointSlice of a source when somebody begins to use an
// address that it has. It must be called before Start. The function must return soon, and may be called often.
func (u *InUse) OnEndpointsChange(changed func(slice types.NamespacedName)) {
	u.changedEndpoints = changed
}

// Show notes which addresses an EndpointSlice of a source has. Nil stands for one that is gone.
func (u *InUse) Show(key types.NamespacedName, slice *discoveryv1.EndpointSlice) {
	u.set(id{endpoints, key}, user{kind: ofEndpoints, has: read(addressesOf(slice)...)})
}

// addressesOf returns the addresses of an EndpointSlice, or of none if it is nil.
func addressesOf(slice *discoveryv1.EndpointSlice) []string {
	var texts []string
	if slice != nil {
		for i := range slice.Endpoints {
			texts = append(texts, slice.Endpoints[i].Addresses...)
		}
	}
	return texts
}
