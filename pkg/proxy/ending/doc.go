// Package ending asks a target's manager to end a delegate: to delete the delegate, and then its PodChaperon.
//
// Sources do not delete PodChaperons that may have a delegate, unless the target's manager does not answer in time, or
// the PodChaperon left the cache while it was placed. Only the target's manager creates delegates, so only the target's
// manager can order the creation and the end of one. A source that deletes a PodChaperon itself does not know whether a
// request to create the delegate is under way, which may be carried out when the PodChaperon is gone.
//
// Others may delete PodChaperons nevertheless. MayRun says whether a delegate has outlived its PodChaperon.
package ending
