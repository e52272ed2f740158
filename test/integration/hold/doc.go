// Package hold tests on real API servers that one source at a time acts in a target, that a target that was set back is
// not believed, and that a target's manager that is silent gets no new pods.
//
// There is a source, a copy of it, and a target. The target has the chart's roles and the controllers of the product.
// Time goes faster than on the wall, for all parts alike.
package hold
