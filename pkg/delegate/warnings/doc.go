// Package warnings shows the source what happens to its delegates: FailedMount, Unhealthy, BackOff, Evicted and so on.
// It watches the warning events of pods in the target, and keeps the newest warnings of each delegate. Package chaperon
// adds them to the status of the PodChaperon, as conditions, and the source records them as events of the proxy. So
// sources need no right to read events.
//
// # Cost
//
// A delegate without warnings costs nothing. A new reason is shown at once, in one write of the PodChaperon's status.
// If a warning is repeated, its PodChaperon is written every ten seconds at most. All PodChaperons together have a
// budget of writes per second: in a cluster in which everything fails, warnings are shown later. One write then has
// what happened meanwhile.
//
// No event is kept. Lists are read page by page, and only events of type Warning about pods leave the API server. A
// delegate has a few short texts in memory, until its PodChaperon goes.
//
// # Limits
//
// Warnings are told as events are: the last ones can be lost if the leader changes. An event that overtakes its pod's
// event in the cache is lost, too, unless it is repeated. FailedScheduling is left out: the condition PodScheduled says
// the same, and the source's scheduler records it. Events about nodes (OOMKilling) are not watched: they do not name
// the pod. The status of the container says OOMKilled.
//
// Rights: list and watch events in the whole cluster, for want of selectors that know delegates.
package warnings
