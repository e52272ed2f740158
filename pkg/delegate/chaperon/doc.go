// Package chaperon runs in target clusters. It makes the delegate pod that a PodChaperon asks for, and carries the
// delegate's status back in the PodChaperon's.
//
// The delegate has the PodChaperon's name, so creating it is idempotent: a manager that was killed in between, or whose
// cache is behind, finds the delegate there already. Whether there has been a delegate is read from the PodChaperon's
// status, which survives the manager, and a delegate that is missing from the cache is looked for in the API server
// before it is called lost. What remains is a delegate that is deleted before the status says that it was scheduled: it
// is made again, as if it had never been there. It may have started if the manager was down in that time.
//
// The status is written when it differs, as a merge patch of what differs, and not before the scheduler has looked at
// the delegate: once when it is scheduled, and once for each report of the kubelet that changes something. Until the
// cache shows a write, the written PodChaperon stands in for the cached one (type ownWrites); otherwise the next patch
// would be computed against an old status, and a delegate lost in that moment would pass for one that never was.
//
// Sources do not delete PodChaperons. They ask by an annotation, and then the delegate is deleted here, and when it is
// gone the PodChaperon. That is cheaper than garbage collection in the foreground, which remains for whoever deletes a
// PodChaperon, and honours the delegate's own grace period.
package chaperon
