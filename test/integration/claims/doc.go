// Package claims runs the package follow/claims between the API servers of a source and two targets, with the rights
// that the chart gives it and no others. The tests play scheduling, which asks whether a pod may go to a target and
// has its claims ensured there. They also play the controllers that protect and bind claims.
package claims
