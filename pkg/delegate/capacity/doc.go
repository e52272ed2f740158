// Package capacity runs in target clusters. It publishes what the cluster has and what is free there in the ClusterSummary
// named singleton, for the source clusters.
//
// Watch events of nodes and pods keep an account of what is requested on each node; an event costs the same in a cluster of
// any size. Sums and maxima over the nodes are made when the summary is published, a few milliseconds for thousands of nodes:
// that is done at most once per Options.Interval, and totals that are never adjusted cannot drift. The summary is
// written only if it differs.
//
// Requests are counted as kube-scheduler counts them: pods that are resized in place by the larger of what they have and
// what they ask for, terminating pods until they are gone, finished pods not at all. Nodes that are cordoned or not Ready do not
// count, nor do the pods on them, nor virtual nodes, so that nobody's proxies do. Taints do not matter here: the summary cannot know
// what a pod tolerates.
package capacity
