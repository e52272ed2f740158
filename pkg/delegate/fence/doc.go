// Package fence observes, in a target, for how long sources have been silent. Package chaperon stops delegates whose
// PodChaperon asks for this after some time.
//
// A source is heard of when its Lease changes: it renews the Lease every five seconds while it acts here. Only this
// process's own clock counts, and no time that a source wrote.
//
// # A watch that shows nothing
//
// A watch can be broken, and this cluster's API server can be away, so that no source can be heard of. Therefore the
// watch must show the renewals of this cluster's own Lease, "manager", which package presence writes every ten seconds.
// Silence is measured at these renewals. Between two that are far apart, nobody was heard of. Then every source has a
// minute to be heard of before it counts as silent.
//
// # A new leader
//
// It begins to count when it begins to lead. To keep the times somewhere would need the right to write the Leases of
// sources, and the clocks of nodes that agree. So a delegate may be stopped later by the time that it asks for, and
// sources wait for that: see timeouts.FenceHoldsAfterRestart.
//
// # Which source
//
// The holder of a Lease writes its cluster ID there. Every tenant of this cluster who may write a Source has a user who
// may hold a Lease. So the Lease counts for a PodChaperon only if its user may have this PodChaperon: see
// restriction.Claim. Whoever may write Sources in a namespace can therefore keep the delegates there, and no others. If
// several Leases count, it is enough that one is renewed. A source without a Lease that counts is never silent: nobody
// can hear of it.
//
// Rights, in the namespace of Leases: list and watch leases. In all: those of package restriction.
package fence
