// Package cli tests the commands of `kubectl multicluster` against two real API servers. The parts of the system that would answer are
// played: the source controller is real, Kubernetes' token controller and the source's manager are a few lines each.
package cli
