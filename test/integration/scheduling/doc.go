// Package scheduling tests the scheduler of proxies against real API servers: a source cluster and two targets. The tests play the
// targets' chaperon controllers and the virtual nodes, so that they decide what a target answers, and when. The scheduler
// has the rights that its package asks for and no others.
package scheduling
