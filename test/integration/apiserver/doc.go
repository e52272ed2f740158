// Package apiserver runs real control planes for integration tests: one etcd and one kube-apiserver per cluster, with
// the project's custom resources installed.
//
// There is no kubelet, no scheduler and no controller manager: what a test does not do itself does not happen. Pods stay Pending
// until the test writes their status, deleting one with a grace period leaves it Terminating until the test confirms,
// namespaces have no default service account, and nothing is garbage collected. That makes every step of a test visible and
// repeatable; behaviour that needs the rest of Kubernetes belongs to test/e2e.
//
// A control plane takes a few seconds to start. A package whose tests can share one starts it with New in TestMain and
// gives each test a namespace of its own; a test that stops, or fills, a control plane starts its own with Start.
package apiserver
