// Package scheduling chooses a target cluster for each proxy pod, places its delegate there, waits for the target's own
// scheduler and binds the proxy to the target's virtual node.
//
// It is kube-scheduler, run in the manager's process with the one profile admiralty-proxy and the plugin Admiralty. The
// standard plugins judge what Kubernetes knows of virtual nodes (taints, affinity, spread constraints); ours judges
// what only a multi-cluster scheduler knows: whether the target is reachable, takes pods of the namespace, refused this
// pod of late, and has a node for it.
//
//   - Filter, Score and Reserve work in memory. What they read is fed by event handlers on the caches of engaged
//     targets. Package fit compares a pod with the room of a target; each target's ledger subtracts what was placed
//     there and its ClusterSummary has not counted.
//   - A pod that fits nowhere may be tried in one target nevertheless, which can make room for it (trials.go). Where
//     others are in the way, it is the target's own scheduler that evicts them: nobody here knows which delegates share
//     a node. So NodeResourcesFit and DefaultPreemption are not in the profile.
//   - Bind waits, in the binding goroutine of its pod: after Reserve the pod counts in the scheduler's cache, and
//     unlike in Permit and PreBind no nominated node name is written meanwhile. A waiting pod is a parked goroutine and
//     a timer.
//   - At most one delegate exists per proxy in all the targets that are reachable. A PodChaperon that is there, or may
//     be there because a request was not answered, keeps the pod to its target; one that is given up is deleted as it
//     was seen (UID and resource version). Where it may have a delegate, it is deleted in the foreground and seen to be
//     gone before another target is tried: the delegate may have been scheduled just before, and then it ends at its
//     own pace. A target that becomes unreachable no longer holds the pod.
//   - A target that refused a pod is left out for that pod for a while that depends on how it refused (exclusions.go).
//     Pods that nothing could take are woken by an event of our own in the scheduler's queue, which knows of pods that
//     are in flight; no second bookkeeping of rejected pods is needed.
//   - The score is proportional: the best target gets 100 and each other as much less as it is fuller (or emptier, for
//     pack), at least 1 less. So load decides between targets that are otherwise equal, however small the pods, and a
//     preference of the user outweighs small differences of load. Default topology spreading is off: it would need
//     caches of every Service, ReplicaSet and StatefulSet; the spread constraints of pods are honoured.
//   - Messages are ours (telling.go): kube-scheduler's are about nodes, and do not say what is missing.
//   - Plugins that need more of the API are not enabled (volumes, dynamic resources, host ports, images: the target's
//     scheduler knows them). Where kube-scheduler sets up their informers all the same, they are replaced by empty
//     ones.
//   - Pods that admission has not made proxies, and those of namespaces that are not enabled, are rejected: users can
//     write all that makes a proxy themselves.
//
// What the manager's role in the source cluster must allow for this package:
//
//	apiGroups: [""]               resources: [pods]                  verbs: [list, watch]
//	apiGroups: [""]               resources: [pods/binding]          verbs: [create]
//	apiGroups: [""]               resources: [pods/status]           verbs: [patch]  condition PodScheduled
//	apiGroups: [""]               resources: [nodes, namespaces]     verbs: [list, watch]
//	apiGroups: [events.k8s.io]    resources: [events]                verbs: [create, patch, update]
//
// And the source's role in a target, beside what its cache reads (list and watch of podchaperons and clustersummaries):
//
//	apiGroups: [multicluster.admiralty.io]  resources: [podchaperons]  verbs: [get, create, delete]
package scheduling
