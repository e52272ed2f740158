// Package network joins the network namespaces of a checkout's clusters.
//
// A bridge in a namespace of its own, the hub, has one port for each cluster and one for the machine. Being alone there it
// is out of the reach of firewalls that others (Docker, say) set up on the machine, and everything goes when it goes. In a
// cluster's namespace, every pod has a route; the ranges of the other clusters' pods are routed to those clusters' nodes,
// so the network of all pods is flat and no address is translated on the way. There is no route to anywhere else.
package network
