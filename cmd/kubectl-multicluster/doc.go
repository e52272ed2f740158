// Command kubectl-multicluster is the kubectl plug-in `kubectl multicluster`. Package cli implements it.
package main
