// Package manager is the composition root: it alone knows all parts, of the source and of the target role, and wires
// them into one process.
//
// Every cluster runs every part: a cluster without targets has no virtual nodes and one without sources no
// PodChaperons, which costs next to nothing, so there is no switch for the roles. The webhook and the kubelet API serve
// on all replicas, everything else runs on the leader.
package manager
