// Package usage measures what the pods of a virtual node use, for the metrics of the kubelet API.
//
// # Where the numbers are from
//
// The target's metrics API (metrics.k8s.io) has the usage of delegates. The Meter reads it with the source's identity,
// one list per namespace with proxies, and only when somebody asks for the metrics of a node. It uses an answer for
// some seconds. So a target whose metrics nobody asks for costs nothing. Other ways were rejected: the target's manager
// would have to read all of its kubelets, and a status with the usage of each pod would be written without end.
//
// A target without a metrics API, or one that does not let the source read it, gives no numbers. The Meter never makes
// up a number: an autoscaler takes a zero for a pod that is idle. It leaves out a pod if one of its containers has no
// number.
//
// # From rates to counters
//
// Kubelets report how much CPU time a container has used since it started. The metrics API reports rates. The Meter
// integrates: a counter grows by the rate of a sample times the time since the sample before. A reader who divides the
// growth between two samples by their distance gets exactly the rate that the target reported, which metrics-server
// does.
//
// A counter begins at the start of the container if the first sample covers that time. Otherwise the Meter does not
// know what came before, and the counter begins with the sample: after another replica became the leader, too. The
// start time in the metrics is that of the counter. Readers see a container that has restarted, and no leap of its
// usage.
//
// The counter of the node grows by the sum of the rates of its pods. It does not shrink when a pod ends.
//
// # Trust
//
// A target is believed about the containers of its own delegates, within bounds. The Meter finds delegates by
// PodChaperons that passed the gate, and containers by the proxy's status. Times in the metrics are of the source's
// clock.
package usage
