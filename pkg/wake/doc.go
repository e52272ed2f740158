// Package wake lets whatever happens outside the source cluster's API server set off a controller: a target that answers, a
// ClusterSummary that changes.
//
// It is a controller-runtime source without the channel that source.Channel has: waking never blocks, and the queue
// merges what comes in a burst.
package wake
