// Package cli tests the commands of `kubectl multicluster` against two real API servers. The source controller is the
// real one. The tests play Kubernetes' token controller and the source's manager.
package cli
