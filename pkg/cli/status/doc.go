// Package status shows the targets of a cluster as its manager sees them: whether they are connected, their virtual
// nodes, the number of pods in them, and their free capacity.
//
// The command reads only the source cluster. So it works when a target does not answer, and needs no credentials of
// targets. The free capacity is the virtual node's allocatable resources less the requests of the proxies on the node.
package status
