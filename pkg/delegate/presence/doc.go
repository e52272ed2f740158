// Package presence shows sources that the target's manager is awake: the leader renews the Lease "manager" every ten
// seconds. Sources see the renewals, not the times in the Lease, because clocks differ.
//
// The Lease elects nobody. An API server that answers says nothing about the manager, which makes delegates from
// PodChaperons, and writes what they do.
//
// Rights, in the namespace of Leases: create leases; get and update the Lease "manager".
package presence
