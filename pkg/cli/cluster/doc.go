// Package cluster opens the clusters of a kubeconfig for the commands. Its errors are plain sentences for users: which
// contexts there are, that a cluster does not answer, that the chart is not installed.
//
// Commands wait by a watch, so they see a change at once. If the time runs out, they report the last state.
package cluster
