// Package cluster opens the clusters of a kubeconfig for the commands, and says in plain sentences what is wrong when that
// fails: which contexts there are, that a cluster does not answer, that the chart is not installed.
//
// Waiting is watching: a command is told of a change when it happens, and reports what it saw last if time runs out.
package cluster
