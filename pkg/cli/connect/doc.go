// Package connect makes a cluster a target of another. In the target, it creates an identity with rights. In the
// source, it creates a kubeconfig Secret and a Target or ClusterTarget. It waits until the target takes pods.
//
// The identity is a service account. By default, its token is a Secret of type kubernetes.io/service-account-token,
// which is valid until it is deleted. A token of the TokenRequest API would expire, and with it the connection, at a
// time when nobody thinks of it. Running the command again creates a new token, and deletes the earlier tokens when the
// connection works.
package connect
