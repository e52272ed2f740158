// Package network joins the network namespaces of a checkout's clusters.
//
// A bridge has one port for each cluster and one for the machine. The bridge is alone in a network namespace of its
// own, the hub, for two reasons. The machine's firewalls (Docker's, for example) do not reach it, and removing the
// namespace removes everything.
//
// Each cluster's namespace has a route to every pod: the ranges of the other clusters' pods lead to the nodes of those
// clusters. So the network of all pods is flat, and nothing translates addresses. All other packets go to the machine.
// Nothing beyond the machine can answer them, because it has no route back.
package network
