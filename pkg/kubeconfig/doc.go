// Package kubeconfig reads kubeconfigs that come from a Secret.
//
// Whoever may write that Secret must not get at the manager: a kubeconfig that would run a program or read a file of the
// manager's container is refused, as is one that would send credentials in the clear. What is left is the address, inline
// certificates and keys, a token or a password, a proxy and impersonation. Errors say what to do, and never repeat what the kubeconfig holds but
// the names of its entries.
package kubeconfig
