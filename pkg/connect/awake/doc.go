// Package awake tells a source whether the manager of a target is awake. It is awake while it renews its Lease, as seen
// on the source's own clock. The times in the Lease mean nothing here.
//
// Silence is no loss: delegates go on running. So the source only places no new pods there.
package awake
