// Package copies writes copies of the source's objects into a target, and never touches what is not a copy of this source.
//
// It reads nothing: a source may not read Secrets of a target. So the API server there compares, in the same request that writes: a
// JSON patch begins with a test of the label parent-cluster-id. See docs/design/following.md.
package copies
