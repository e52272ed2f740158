// Package e2e tests the product as its users see it: on real clusters c1 and c2 with real containers, installed by
// `make deploy`, with kubectl where a user would use it.
//
// The tests find the clusters through .local/kubeconfig. Each test has a namespace of its own in all clusters, and
// removes everything that it made. Tests wait for conditions, never for time.
package e2e
