// Package claims runs the package follow/claims between the API servers of a source and two targets, with no more rights than it needs, and plays
// the rest: scheduling, which asks and brings, and the controllers that protect and bind claims.
package claims
