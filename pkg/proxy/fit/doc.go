// Package fit says whether a pod fits in a target, and if not, why. It compares the pod's Demand with the Room of the
// target, which is the free capacity in its ClusterSummary.
//
// Both are compiled once and never change: a Demand per version of a pod, a Room per ClusterSummary. For each Room, the
// node classes that match a pod's constraints are computed once. They are kept while the labels and taints of the nodes
// stay the same. Then only integers are compared. kube-scheduler's own helpers parse and match selectors, affinity and
// tolerations, and count requests.
//
// A label that a summary omits may or may not be on a node, so requirements on it are unknown. The same holds for the
// node's name. Fits is certain, as far as the summary goes. Unsure means that it depends on omitted labels or names.
// Labels that the target excludes are not even named, and count as absent.
//
// Nodes have as much as anybody asks for of an extended resource that a DeviceClass provides and none of them lists.
// The target's own scheduler decides whether a device is free. It also decides about other things that summaries do not
// contain: volumes, host ports, pod (anti-)affinity, and spread over nodes.
package fit
