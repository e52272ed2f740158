// Package feedback carries the delegate's status back to its proxy, and deletions in both directions. It also ends
// delegates whose proxies no longer exist.
//
// Each engaged target has a queue and workers of its own, keyed by proxy, so that a target that hangs delays no other.
// Reconciling reads the proxy from the manager's cache and its PodChaperon from the target's cache, decides in a pure
// function, and acts. Before feedback deletes anything because a cache lacks an object, it confirms that with a live
// read: that a PodChaperon has no proxy, and that a proxy has no PodChaperon. One exception: the cache had the
// PodChaperon, and we asked for its end. If somebody else ended the PodChaperon, the proxy stays until the target
// has no delegate. Every write carries the UID that it is meant for, so that it never hits a pod that was created again
// under the same name.
//
// A proxy that is changed changes its PodChaperon. Two hashes show this, which the caches hold: that of the proxy, and
// that of the proxy that the PodChaperon was made from. So nothing is read unless something was changed.
//
// A target could report any address. Package addresses decides which ones a proxy shows, and says when an address comes
// into use or becomes free. Without a reachable target, feedback still removes addresses from proxies.
//
// PodChaperons show warnings about delegates, as conditions. Feedback records them as events of the proxy, and keeps in
// memory which ones it has recorded. They change no status.
//
// Events of pods and PodChaperons cause reconciliation, and so does the engagement of a target, which compares all of
// its PodChaperons and all proxies of its node. Two questions are asked again and again: whether a delegate without a
// PodChaperon has ended, and whether the target has surely ended its fenced delegates while it was lost. While a target
// is lost, feedback confirms such ends, and hides addresses that come into use. It writes nothing else for its proxies,
// as with a dead node.
//
// An annotation on the PodChaperon asks the target's manager to end the delegate. If the PodChaperon is still there
// timeouts.ManagerPatience later, feedback deletes it in the foreground, and the target's garbage collector ends the
// delegate. The garbage collector is not asked first, because it makes several requests for each pod, and is slow by
// default.
//
// Deletion needs no finalizers. A bound pod that is deleted with a grace period stays until a kubelet confirms; for
// virtual nodes this package is that kubelet. Pods on a virtual node that are no proxies (of DaemonSets that tolerate
// everything) run nowhere, so feedback confirms their deletion at once. A finalizer of others may hold a proxy whose
// delegate is gone; the Job controller counts its pods this way. Such a proxy first becomes Failed, as with a kubelet,
// because some controllers wait for a terminal phase.
package feedback
