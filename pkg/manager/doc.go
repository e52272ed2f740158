// Package manager is the composition root. It alone knows all parts, for sources and for targets, and puts them
// together in one process.
//
// Every cluster runs every part. A cluster without targets has no virtual nodes, and a cluster without sources has no
// PodChaperons. The idle parts cost nearly nothing, so there is no switch for them. The webhook and the kubelet API
// serve on all replicas. All other parts run on the leader.
package manager
