// Package uninstall removes what `helm uninstall` would leave behind. The chart runs it in a Job, before Helm deletes
// the release.
//
// The order is the design. Each step needs the one before:
//
//  1. The webhook for elected pods goes. So the pods that replace proxies are ordinary pods.
//  2. Source: proxies are deleted while the manager still runs. The manager ends their delegates, as always. Only
//     proxies on a Ready virtual node are waited for, because nobody can end the delegates of the others. A proxy
//     without a node is gone at once, but it may have a PodChaperon: the manager gets some time to end it.
//  3. The manager stops. From here on, nobody makes nodes, delegates or copies again.
//  4. Source: virtual nodes and their Leases are deleted. Kubernetes' garbage collection of pods removes the pods that
//     are still on them, whether their target answers or not. Services get their own selectors back.
//  5. Target: when sources have had the time to notice that the manager is silent, and so place no more pods here, all
//     PodChaperons are deleted in the foreground. Kubernetes' garbage collector ends the delegates. Sources still have
//     their rights, so they see it, and replace the pods elsewhere. Then the copies go, except claims, because they are
//     data, and ServiceAccounts to which somebody in this cluster added something.
//
// With Leave, steps 2 and 5 are left out, except that Pending proxies with a controller are deleted. The manager must
// stop before the virtual nodes go: otherwise it would end the delegates of the pods that go with the nodes.
//
// Waiting has an end, and what is not done by then is logged, not an error: everything that remains is deleted by
// Kubernetes, or runs on in a target that does not answer. Two things are errors, after which nothing is lost by
// another try: a refusal of this cluster's own API server, and a target without the time to delete PodChaperons. Their
// delegates would run on without their copies.
//
// No other cluster is called. So it does not matter which of them answer.
package uninstall
