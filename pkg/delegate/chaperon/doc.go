// Package chaperon creates the delegate of each PodChaperon, and copies the delegate's status to the PodChaperon's. It
// runs in target clusters.
//
// The delegate has the PodChaperon's name, so creating it is idempotent. A manager that was killed in between, or whose
// cache lags, finds the existing delegate. The PodChaperon's status, which survives the manager, says whether there has
// been a delegate. If the cache lacks a delegate, the API server is asked before the delegate counts as lost. One gap
// remains: a delegate that is deleted before the status says that it was scheduled is created again, as if it had never
// existed. It may have started if the manager was down in that time.
//
// The API server may refuse to create a delegate that exists: it applies quotas before it looks at the name. So the API
// server is asked for the delegate before the status shows a refusal, because the source then places the pod elsewhere.
// If an earlier request was not answered, the refusal is shown only when that request cannot create the delegate any
// more (type unanswered). A PodChaperon without a delegate, whose end the source asked for, stays until then, too. One
// gap remains: a new leader does not know the unanswered requests of the one before.
//
// The status is written as a merge patch of the differences. The first write waits until the scheduler has processed
// the delegate. So there is one write when the delegate is scheduled, and one for each report of the kubelet that
// changes something.
//
// Warnings about the delegate are conditions in the status. Package warnings knows them, and wakes this controller.
//
// API servers drop fields silently that their version of Kubernetes does not know or has disabled. The answer to a
// creation or a change has the pod that was stored, so comparing it with the wished one costs no request. A condition
// shows what is missing. The delegate runs on without it, as a plain pod would in this cluster: to refuse it would also
// refuse all pods from which a webhook removes something on purpose.
//
// Until the cache shows a write, the written PodChaperon replaces the cached one (type ownWrites). Otherwise the next
// patch would be computed from an old status, and a delegate that is lost in that moment would count as one that never
// existed.
//
// A delegate is created only if it meets the rules of package restriction. A PodChaperon whose annotation revision has
// a higher number than its delegate's changes the delegate, in the fields that API servers let change in a pod, and by
// the same rules. If a lost delegate is created again, the changed spec and the rules of that time count.
//
// Sources do not delete PodChaperons. They request the deletion by an annotation. This package then deletes the
// delegate, and afterwards the PodChaperon. This costs less than garbage collection in the foreground. If somebody
// deletes a PodChaperon, garbage collection ends the delegate, with the delegate's own grace period. A source that got
// no answer deletes the PodChaperon, too. So this package reads a PodChaperon that is not fresh before it creates the
// delegate: package timeouts has the times.
package chaperon
