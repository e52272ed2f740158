// Package objects runs the package follow between the API servers of a source and a target. In the target the source
// has the rights of a source, and the chart's admission policy applies to it. The tests play the scheduler, which has
// everything ensured that pods need, and binds proxies.
package objects
