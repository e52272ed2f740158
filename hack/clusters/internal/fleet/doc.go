// Package fleet manages all clusters of a checkout. It allots resources of the machine to them, starts and removes
// several at the same time, and removes the clusters of checkouts that vanished.
//
// Commands that change the clusters of a checkout queue for the checkout's lock, so they never overlap. A command holds
// the lock of the machine's registry only while it allots or removes.
package fleet
