// Package wake lets events outside the source cluster's API server start a controller: a target answers, a
// ClusterSummary changes.
//
// Source is a source of controller-runtime, without the channel of source.Channel. Waking never blocks, and the queue
// merges bursts.
package wake
