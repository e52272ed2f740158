// Package pki makes the keys and certificates of a cluster. They are as short-lived as the cluster's state, beside which
// they lie.
package pki
