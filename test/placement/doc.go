// Command placement simulates how pods are placed in fleets of clusters, in seconds each, without API servers. It
// compares a fleet with one flat cluster of the same nodes, and writes the table of docs/performance/placement.md.
//
// The product's own code runs. In the source, that is the scheduler with its plugins, placement, attempts, fit and the
// ledgers. In each target, it is the controller of PodChaperons and the publisher of the ClusterSummary.
// kube-scheduler's framework and cache place the delegates on nodes. The API servers, kubelets, autoscalers, quotas and
// queues are models.
// docs/design/placement-simulator.md says why, and what the figures do not show.
//
// Time is that of a bubble of testing/synctest: it goes on when nobody has anything to do. So computing takes no time.
// Requests, watches, nodes and the cycles of kube-scheduler do.
package main
