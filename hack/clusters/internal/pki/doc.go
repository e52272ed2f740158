// Package pki makes the keys and certificates of a cluster. They are part of the cluster's state and live no longer.
package pki
