// Package idle looks after idle pods: pods on virtual nodes that are no proxies. Nothing runs for them, because a
// virtual node runs only elected pods.
//
// Pods of DaemonSets that tolerate everything get there. Such a pod would stay Pending for ever. Its DaemonSet would
// count it as unavailable, and never end a rolling update. So the pod is acknowledged: it is Running and Ready, and its
// reason and message say that nothing runs. It has no address and no containers, so no Service leads to it. This does
// not depend on the target: a target that is lost must not stop a roll-out in the source.
//
// Any other pod was bound by hand. It may even name our scheduler, as a copy of a proxy does. It stays Pending, and its
// status and an event say why, and what to do. This package never deletes pods. Package feedback confirms the deletion
// of idle pods that somebody else asked for.
//
// The manager's cache has all pods, but little of those that are not ours. So an idle pod is read from the API server
// when the cache shows that it is new or changed. Other pods cost a comparison of their node's name, and no request.
//
// # Rights
//
// In the source cluster:
//   - get, list and watch pods and nodes
//   - patch pods/status
//   - create and patch events
package idle
