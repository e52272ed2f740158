// Package kubeconfig reads kubeconfigs that come from a Secret.
//
// A user who may write this Secret must not gain control of the manager. So the package refuses a kubeconfig that would
// run a program, read a file of the manager's container, or send credentials without encryption. It accepts the
// address, inline certificates and keys, a token or a password, and impersonation. Rules say whether it accepts a
// proxy, and a server whose certificate is not verified. Errors tell the user what to do, and repeat nothing of the
// kubeconfig except the names of its entries.
package kubeconfig
