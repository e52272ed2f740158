// Package fence tests on real API servers that a target stops delegates whose source it has not heard of, and no
// others, and that the source replaces them when it is back.
//
// There is a source, whose parts are the Lease that it holds and feedback, and a target with the chart's roles and the
// parts of its manager that are concerned. Time goes faster than on the wall.
package fence
