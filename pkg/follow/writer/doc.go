// Package writer writes copies of the source's objects into a target, and never touches what is not a copy of this
// source.
//
// Most kinds are changed by a JSON patch that begins with a test of the label parent-cluster-id, so that the API server
// itself compares, in the request that writes.
//
// ConfigMaps and Secrets a source may not read in a target. It may not patch them either: an operation that copies data
// to where it is invalid gets it back in the error. They are replaced as a whole, which the admission policy of the
// target's chart allows for copies of this source only. Whether it does is found out before each of them is replaced: a
// request more, but whoever changes the source's rights, or the policy, need not tell. It does not hold those who may
// run pods there, such as administrators: they may read, so it is looked whose an object is, and its UID is a
// precondition. See docs/design/following.md.
package writer
