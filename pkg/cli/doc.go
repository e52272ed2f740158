// Package cli is `kubectl multicluster`, the kubectl plug-in that connects clusters and shows how they are: one package per command.
//
// The commands only write what a person could write with kubectl: Sources, Secrets, Targets. Everything else is done by the
// managers in the clusters, which the commands watch.
package cli
