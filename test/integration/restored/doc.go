// Package restored tests what becomes of pods if the etcd of a source or of a target is set back to a backup, a target
// is renamed, and a source is installed anew. The API servers are real, and the managers are processes of their own,
// which are started again when they end, as Kubernetes does. The suite plays the target's kubelet and the garbage
// collectors.
//
// A checker watches both clusters from outside. It notes each delegate that starts, and each that goes.
package restored
