// Package connect makes a cluster a target of another, from both ends: an identity and rights in the target, a kubeconfig Secret and a
// Target or ClusterTarget in the source; and waits until pods can go there.
//
// The identity is a service account, and its token by default a Secret of type kubernetes.io/service-account-token, which is valid until
// it is deleted: a token of the TokenRequest API would expire, and with it the connection, when nobody thinks of it any more. Running the command again makes a new token, and deletes
// the earlier ones when the connection works.
package connect
