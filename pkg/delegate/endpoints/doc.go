// Package endpoints deletes EndpointSlices of sources that lead where they must not. The webhook of package admission
// refuses addresses that are in use when the source writes them. Here the target's manager decides again when somebody
// begins to use an address, and at its start, for EndpointSlices of earlier versions.
//
// The whole EndpointSlice is deleted, because the manager has no right to change it. The source then writes it again.
// The webhook refuses that as long as an address is in use by others, and the source reports the reason by an event on
// its Service.
//
// Addresses of pods in several clusters differ on a flat network, so there nothing is deleted. On another network,
// endpoints with equal addresses led to wrong pods.
package endpoints
