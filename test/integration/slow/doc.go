// Package slow tests that a target in trouble counts as such, and not as dead, and that it costs others nothing.
//
// Each target has a server of package test/hostile before the API server c2. The servers pass requests on until a test
// has them misbehave: they are slow, drop, throttle, fail, or flap. The source c1 runs the parts that connect targets,
// keep virtual nodes, and place pods. Its clock is faster than the wall's, so latencies are shorter, too. With the
// build tag long, it is not, so that answers that take 8 s meet the deadlines of requests.
//
// The target "healthy" leads to c2 itself. Pods are placed there all the time, each beside one of a control group: a
// second source that has this target only. See package hostile, which compares in the same manner.
package slow
