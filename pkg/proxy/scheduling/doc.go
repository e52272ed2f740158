// Package scheduling chooses a target for each proxy pod, places the delegate there, waits for the target's own
// scheduler and binds the proxy to the target's virtual node.
//
// The scheduler is kube-scheduler, which runs in the manager's process with one profile, admiralty-proxy, and the
// plugin Admiralty. The standard plugins compare pods with virtual nodes: taints, affinity, spread constraints. Our
// plugin decides whether the target is reachable, takes pods of the namespace, has not refused this pod of late, and
// has a node for it.
//
//   - Filter, Score and Reserve work in memory. Event handlers on the caches of engaged targets feed them. Package fit
//     compares a pod with the room of a target. The ledger of each target subtracts the pods that were placed there and
//     that its ClusterSummary does not count yet.
//   - Package attempts remembers what earlier attempts of a pod showed. A target that refused a pod is left out for
//     that pod. The refusal decides for how long. An event of our own wakes the pods that no target could take. The
//     scheduler's queue knows the pods in flight, so no second bookkeeping is needed.
//   - A pod that fits nowhere may still be tried in one target that can make room for it (prospects.go). If other pods
//     are in the way, the target's own scheduler evicts them: the source does not know which delegates share a node. So
//     NodeResourcesFit and DefaultPreemption are not in the profile.
//   - Package placement places the delegate, and knows where delegates are. Bind calls it in the binding goroutine of
//     the pod, and waits. After Reserve, the scheduler's cache counts the pod. Unlike Permit and PreBind, Bind causes
//     no write of a nominated node name.
//   - The score is proportional. The best target gets 100. Each other gets as much less as it is fuller (emptier, for
//     pack), at least 1 less. So load decides between targets that are otherwise equal, however small the pods, and a
//     preference of the user outweighs small differences of load.
//   - The spread constraints of pods are honoured. Default topology spreading is off: it would need caches of every
//     Service, ReplicaSet and StatefulSet.
//   - Failure messages are ours (messages.go): kube-scheduler's are about nodes, and do not name the missing resource.
//   - Plugins that need more of the API are not enabled: volumes, dynamic resources, host ports, images. The target's
//     scheduler knows them. kube-scheduler sets up some of their informers all the same, so empty ones replace these.
//   - Users can write every field that makes a pod a proxy. So pods that admission has not made proxies, and pods of
//     namespaces that are not enabled, are rejected.
//
// What the manager's role in the source cluster must allow for this package:
//
//	apiGroups: [""]               resources: [pods]                  verbs: [list, watch]
//	apiGroups: [""]               resources: [pods/binding]          verbs: [create]
//	apiGroups: [""]               resources: [pods/status]           verbs: [patch]  condition PodScheduled
//	apiGroups: [""]               resources: [nodes, namespaces]     verbs: [list, watch]
//	apiGroups: [events.k8s.io]    resources: [events]                verbs: [create, patch, update]
package scheduling
