// Package admission is the validating webhook of a target's manager. It decides what one object does not show: an
// EndpointSlice that a source writes must belong to a Service of the namespace that is a copy of the same source.
// Otherwise a source could add endpoints to Services of others.
//
// The chart's ValidatingWebhookConfiguration matches sources only, and only the creation of EndpointSlices and changes
// of their content. So nobody else waits for the webhook. A source can delete its EndpointSlices, and change their
// other labels, while no manager runs.
//
// The Service is read from the API server, and not from a cache. A source writes a Service first and its EndpointSlices
// right after it, and a cache may not have the Service yet. This costs one read for each EndpointSlice that a source
// writes.
//
// The webhook keeps nothing, so every replica serves it. An EndpointSlice that loses its Service later is deleted by
// package garbagecollection.
package admission
