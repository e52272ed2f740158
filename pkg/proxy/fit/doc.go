// Package fit says whether a pod fits in a target, and if not, why: it compares what the pod needs, a Demand, with what
// the target's ClusterSummary says is free, a Room.
//
// Both are compiled once and never change: a Demand per pod and scheduling cycle, a Room per ClusterSummary. Which
// classes of nodes a pod's constraints match is computed once for each Room and kept while the labels and taints of its
// nodes stay the same; what remains is to compare integers. kube-scheduler's own helpers parse and match selectors,
// affinity and tolerations and count requests.
//
// A label that a summary omits is neither there nor not there: requirements on it are unknown, and so is the node's
// name. Fits is certain, as far as the summary goes; Unsure says that it depends on what is not told. Labels that the
// target excludes are not even named, and count as absent.
//
// Not compared, because summaries do not tell: extended resources that a DeviceClass provides rather than a node,
// volumes, host ports, pod (anti-)affinity, and spread over nodes.
package fit
