// Package connect makes a cluster a target of another. In the target, it creates an identity with rights. In the
// source, it creates a kubeconfig Secret and a Target or ClusterTarget. It waits until the target takes pods.
//
// The identity is a service account. Its token expires within a day, and the source's manager renews it. For this, the
// command gives the account the right to make tokens for itself. The command warns if the manager does not renew
// tokens, because it is of an earlier version.
//
// Running the command again creates a new token. Tokens without end, which earlier versions made by default, are
// deleted when the connection works with the new one.
package connect
