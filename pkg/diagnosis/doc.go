// Package diagnosis says why a pod is where it is, or nowhere, in the same words for the server and for the CLI. It
// holds a Store of what the scheduler found out, and the texts that people read in events, conditions and the CLI.
//
// The scheduler reports to the Store how the targets looked to a pod, where it tried the pod, and the answers. The
// kubelet API serves the Store's Explanation, and `kubectl multicluster explain` prints it.
//
// The Store lives in the leader's memory alone. Writing explanations to the API server would cost one write for each
// scheduling cycle of each pod, and people ask about few pods. The most important facts are in the pod's event and
// condition, which survive a change of leaders.
//
// The number of pods and of targets in the Store is bounded. The Store keeps the best targets of a placed pod, and all
// targets of a pending one, because people ask about each target of a pending pod.
//
// The package does not import kube-scheduler, which the CLI must not link. The scheduler passes kube-scheduler's
// reasons as plain text, with the name of the plugin.
package diagnosis
