// Package node keeps a virtual node for every ClusterTarget and Target: the Node, its Lease, and the condition Ready of
// the target.
//
// virtual-kubelet's node controller, one per target, writes the Node and the Lease. It patches the difference between
// the labels and status that it applied last and the desired ones. So cordons, taints, and the labels and annotations
// of others stay. It writes the status through the subresource, which cannot change the spec. It rarely reads the Node.
// Our own watch of Nodes notices changes by others, deletion included, and the Reconciler then hands over the desired
// state again.
//
// The Node's condition Ready follows the target's condition Connected. It is Unknown if the source may not act in the
// target: proxies tolerate that, and delegates may run on. It is Unknown, too, while a target with fenced delegates may
// hear of the source: Kubernetes then counts the time until evictions anew. Before the target is engaged, after a
// restart for example, capacity, allocatable and labels stay as they are on the Node. The Lease is renewed even if the
// target does not answer, because it shows only that this manager lives.
//
// Nothing is deleted when the manager stops. The Node and its Lease are deleted only with the target, and only after
// the API server confirmed that the target is gone. The taint is set when the Node is created. It is not set again if
// somebody removes it, because that is a decision of this person.
//
// # Rights
//
// In the source cluster:
//   - get, list, watch, create and delete nodes
//   - patch nodes/status
//   - get, create, update and delete leases (coordination.k8s.io) in the namespace kube-node-lease
//   - get, list and watch clustertargets and targets
//   - patch clustertargets/status and targets/status
//
// In the target, the rights of package connect/target are enough.
package node
