// Package hold lets one manager at a time act as a source in a target. Two can have the same cluster ID and the same
// credentials: a cluster, and a copy that was started from a backup of its etcd. The copy would end the delegates of
// all pods that it lacks.
//
// The target's manager makes a Lease for each source. The leader of the source holds the Lease while it acts there, and
// renews it every five seconds.
//
// # Who takes the Lease
//
// A backup has all that a source stores, so nothing that is stored says who may take the Lease. What counts is that
// this process saw no renewal for long enough, on its own clock.
//
//   - The holder is random, and made for each process. No process takes the holder of another one for its own.
//   - A manager that stops leaves its Leases to a holder that it makes up then, and writes to its own cluster: to the
//     Lease of its leader. The next leader finds it there, and takes the Leases over at once. A backup of before lacks
//     it, and after the take-over it is worth nothing.
//   - After a crash, the next leader takes a Lease that was not renewed for fifteen seconds, which is how long its own
//     election takes. Replicas that do not lead watch the Leases, so these times do not add up.
//   - A renewal by somebody else while this process leads its own cluster is proof that there are two clusters. From
//     then on this process waits for ten minutes of silence. So a copy does not win against the next leader of the
//     cluster that it is a copy of, nor against one that takes a few minutes to start.
//   - Nobody waits for a source of another cluster ID: its objects are others. Sources that share a user are not
//     protected from their copies, except the one that holds the Lease.
//
// # When the right ends
//
// A hold ends twelve seconds after its last renewal, so before anybody else takes the Lease. Its Context then ends,
// which also cancels the writes under way: see wire.Fence. The fence also asks Ended, which looks at the clock. So a
// process that was frozen sends nothing more when it goes on, renewals included.
//
// # The epoch
//
// The Lease has a number, the epoch, which every take-over and every ten minutes raise. The source remembers it, too. A
// target with a lower number than the source remembers was set back: its etcd was restored. Then the absence of a
// PodChaperon proves nothing. While a source holds a Lease, it also knows its own last renewal. So it notices a target
// that was set back by seconds: see Hold.Confirm.
package hold
