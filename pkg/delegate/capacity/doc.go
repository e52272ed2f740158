// Package capacity runs in target clusters. It publishes what the cluster has and what is free there in the ClusterSummary
// named singleton, for the source clusters. Summarize says what a summary is; a Publisher keeps one up to date.
//
// Watch events of nodes and pods keep an account: what is requested on each node, sums over the schedulable nodes, which nodes have the
// same labels and taints. An event costs the same in a cluster of any size. When the summary is published, at most once per
// Options.Interval, the free amounts are gathered anew in those classes of which a node or pod has changed, and nodes are only classified
// anew if one has other labels or taints than before. The summary is written only if it differs.
//
// Requests are counted as kube-scheduler counts them: pods that are resized in place by the larger of what they have and
// what they ask for, terminating pods until they are gone, finished pods not at all. Virtual nodes do not count, so that nobody's proxies
// do. The sums are of schedulable nodes, Ready and not cordoned; the classes have all nodes and the taints that keep pods away.
//
// A summary has a bound, and what that costs is room that is not told, never room that is not there:
//
//   - There are at most 50 classes, and at most 128 KiB of labels and taints. Otherwise, keys of labels are left out, those with the most
//     values first, and named, up to 32 KiB of them; if taints are the reason, classes of the fewest nodes are left out.
//   - There are at most 256 vectors of free amounts, shared fairly by the classes. Where a class has more, nodes that are nearly as free
//     as one another are told as one, by the least of each amount. They are found by dividing the class in two again and again, where
//     that saves the most. (Rounding amounts down would be simpler, but each digit less makes far fewer vectors than there is room for.)
//     The nodes with the most of each resource are told exactly, as far as half of the share goes.
//   - Of each source's delegates, the last 256 are listed.
package capacity
