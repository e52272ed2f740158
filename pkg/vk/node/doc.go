// Package node keeps a virtual node for every ClusterTarget and Target: the Node object, its Lease, and the condition
// Ready of the target.
//
// virtual-kubelet's node controller, one per target, writes Node and Lease. It patches labels and status by comparing
// what it last applied with what it shall apply, so that cordons, taints, and the labels and annotations of others
// stay, and it writes the status through the subresource, which cannot touch the spec. It looks at the Node rarely;
// what others do to it, its deletion too, is seen by our own watch of Nodes, which hands it the desired state again.
//
// The Node's Ready follows the target's condition Connected. What is not known, as before the target is engaged after a
// restart, stays as it was on the Node: capacity, allocatable, labels. The Lease is renewed whatever the target does,
// as it says that this manager lives. Nothing is deleted when the manager stops; only when a target is gone, which is
// asked of the API server, do its Node and Lease go. The taint is put on the Node when it is created; who removes it
// wants it so.
//
// Rights needed in the source cluster: nodes get, list, watch, create, delete; nodes/status patch; leases
// (coordination.k8s.io) in the namespace kube-node-lease get, create, update, delete; clustertargets, targets get,
// list, watch; clustertargets/status, targets/status patch. In the target, those of package connect/target.
package node
