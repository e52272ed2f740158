// Package placement places delegates in targets, waits for the targets' decisions, and knows where delegates are.
//
// It returns what came of each placement and writes no state but its own. What a refusal means for the pod's next
// attempt is decided by the caller.
//
//   - A proxy has at most one delegate in all targets that are not lost. A PodChaperon keeps the pod to its target if
//     it exists. So does one that may exist because a request was not answered.
//   - A PodChaperon that is given up is withdrawn only as it was seen (UID and resource version).
//   - The target's manager is asked to end a delegate that exists or may exist, as package ending explains.
//   - Another target is tried only when the PodChaperon is gone. The delegate may have been scheduled just before, and
//     then ends at its own pace. A target that is lost no longer holds the pod.
//   - A waiting pod costs a parked goroutine and a timer.
//
// The source's role in a target must allow, beside list and watch of podchaperons for the cache:
//
//	apiGroups: [multicluster.admiralty.io]  resources: [podchaperons]  verbs: [get, create, patch, delete]
package placement
