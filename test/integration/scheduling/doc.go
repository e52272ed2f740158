// Package scheduling tests the scheduler of proxies against real API servers: a source cluster and two targets. The
// tests play the chaperon controllers of the targets and the virtual nodes, so that they decide how and when a target
// answers. The scheduler has the rights that its package asks for and no others.
package scheduling
