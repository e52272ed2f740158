// Package admission is the validating webhook of a target's manager. It decides what one object does not show. An
// EndpointSlice that a source writes must belong to a Service of the namespace that is a copy of the same source.
// Otherwise a source could add endpoints to Services of others. Its addresses must not be in use by others in this
// cluster, and must be in the ranges that the administrators allow. Otherwise a source could lead an ingress controller
// of the target to the API server, to nodes, or to pods of other namespaces, past network policies.
//
// The chart's ValidatingWebhookConfiguration matches sources only, and only the creation of EndpointSlices and changes
// of their content. So nobody else waits for the webhook. A source can delete its EndpointSlices, and change their
// other labels, while no manager runs. It can also remove endpoints at any time: only added addresses are checked.
//
// The Service is read from the API server, and not from a cache. A source writes a Service first and its EndpointSlices
// right after it, and a cache may not have the Service yet. This costs one read for each EndpointSlice that a source
// writes.
//
// Every replica serves the webhook. A replica watches the addresses in use from the first EndpointSlice on, so targets
// without such copies do not pay for the watches.
//
// An EndpointSlice that loses its Service later is deleted by package garbagecollection, and one whose address comes
// into use is deleted by package endpoints.
package admission
