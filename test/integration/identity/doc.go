// Package identity tests, with a real API server for each cluster, what happens when another cluster answers under the
// name of a target, and when a target's Secret is lost.
//
// A source connects to targets and copies statuses back, as its manager does, except that timers go faster. A front is
// a server that passes requests on to a cluster of the test's choice: it plays a name that leads elsewhere, or a
// cluster that was rebuilt with the certificates of the earlier one.
package identity
