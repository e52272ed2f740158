// Package capacity publishes the capacity of a target cluster for its sources, in the ClusterSummary named singleton.
// Summarize defines the content of a summary; a Publisher keeps the summary up to date.
//
// # Counting
//
// Watch events of nodes and pods update an account: the requests on each node, sums over the schedulable nodes, and the
// nodes that share labels and taints. The cost of an event does not depend on the size of the cluster.
//
// The Publisher publishes at most once per Options.Interval, and writes only differences. For a publication, it gathers
// the free amounts of those classes that have a changed node or pod. It classifies nodes again only if a node's labels
// or taints changed.
//
// Requests are counted as kube-scheduler counts them. A pod that is resized in place counts with the larger of its
// allocation and its request. Terminating pods count until they are gone; finished pods do not count. Virtual nodes do
// not count, so proxies do not count either. The sums cover the schedulable nodes: Ready and not cordoned. The classes
// cover all nodes, with the taints that repel pods.
//
// # Bounds
//
// The size of a summary is bounded. Because of the bounds, a summary may understate the free capacity, but it never
// overstates it:
//
//   - A summary has at most 50 classes, and at most 128 KiB of labels and taints. Beyond that, keys of labels are
//     omitted, the keys with the most values first. The summary names the omitted keys, up to 32 KiB of them. If taints
//     are the reason, the classes with the fewest nodes are left out.
//   - A summary has at most 256 vectors of free amounts, shared fairly among the classes. If a class has more, nodes
//     with nearly the same free amounts share a vector, which has the least of each amount. To find these nodes, the
//     class is split in two again and again, always where the split saves the most. Rounding down would be simpler, but
//     each digit less leaves far fewer vectors than the bound allows. The nodes with the most of each resource keep
//     exact vectors, in up to half of the class's share.
//   - A class lists at most 4 sizes of empty nodes. Beyond that, one has the most of each resource of several nodes, so
//     that no pod is taken for too large that is not.
//   - Of the extended resources that DeviceClasses provide, 128 are listed, by their names only. Those that have a name
//     of their own come first.
//   - The 100 sources with the most delegates are listed. Of each one's delegates, the last 256 are listed.
package capacity
