// Package feedback carries what happens to a delegate back to its proxy, and the proxy's deletion to its delegate. It also
// collects PodChaperons that nobody wants any more.
//
// Each engaged target has a queue and workers of its own, keyed by proxy, so that a target that hangs costs the others nothing.
// Reconciling reads the proxy from the manager's cache and its PodChaperon from the target's, decides in a pure
// function what is to be done, and does it. What a lagging cache might get wrong is confirmed by a live read before anything is
// deleted because of it: that a PodChaperon has no proxy, and that a proxy has no PodChaperon (unless the cache had it, and we asked
// for its end). Every write carries the UID
// it is meant for, so that a pod re-created under the same name is never hit.
//
// Nothing is done at intervals: pods, PodChaperons, and targets becoming engaged or reachable set it off; the latter two compare
// all of the target's PodChaperons and all of its node's proxies. While a target is not reachable nothing is written for its
// proxies, as with a dead node.
//
// The target's manager ends a delegate, asked by an annotation on the PodChaperon. Only where that does not happen within half a minute
// is the target's garbage collector asked to, by deleting the PodChaperon in the foreground: it makes several requests for each pod,
// and is slow by default.
//
// Deletion needs no finalizers. A bound pod that is deleted with a grace period stays until a kubelet confirms; for virtual nodes
// this package is that kubelet. It confirms the deletion of pods that are no proxies (of DaemonSets that
// tolerate everything) as well, at once, because nothing of them runs anywhere. Where somebody else's finalizer holds a
// proxy whose delegate is gone (Jobs do that to count their pods), the proxy becomes Failed first, as a kubelet would have it:
// some controllers wait for a terminal phase.
package feedback
