// Command kubectl-multicluster is the kubectl plug-in `kubectl multicluster`; see package cli.
package main
