// Package writer writes copies of the source's objects into a target. It never changes an object that is not a copy of
// this source.
//
// Most kinds are changed by a JSON patch that begins with a test of the label parent-cluster-id. So the API server
// itself compares, in the request that writes.
//
// A source may not read ConfigMaps and Secrets in a target. It may not patch them either: an operation that copies data
// to an invalid place gets the data back in the error. So these copies are replaced as a whole. The admission policy of
// the target's chart allows this for copies of this source only. Before each replacement, a probe finds out whether the
// policy applies to us. That is one more request, but nobody announces a change of the source's rights or of the
// policy.
//
// The label alone says whose a copy is. A copy that has lost the annotation followed-by gets it back with the next
// write. Without the annotation, the target's manager would neither collect the copy nor accept endpoints of it.
//
// The policy does not apply to users who may run pods there, such as administrators. They may read, so the Writer reads
// whose object it is, and makes its UID a precondition. See docs/design/following.md.
package writer
