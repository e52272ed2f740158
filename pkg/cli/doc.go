// Package cli is `kubectl multicluster`, the kubectl plug-in that connects clusters and shows their status. Each
// command has a package.
//
// The commands write only objects that a user could write with kubectl: Sources, Secrets, Targets. The managers in the
// clusters do the rest, and the commands watch them.
package cli
