// Package manager is the composition root. It alone knows all parts, for sources and for targets, and puts them
// together in one process.
//
// The configuration chooses the roles: source, target, or both. By default a manager plays both: a cluster without
// targets has no virtual nodes, a cluster without sources has no PodChaperons, and the idle parts cost nearly nothing.
// The manager of one role needs only the rights of this role. The webhook and the kubelet API serve on all replicas.
// All other parts run on the leader.
package manager
