// Package objects runs the package follow between the API servers of a source and a target, as an identity that has a
// source's rights there and is held by the chart's admission policy. It plays the scheduler, which has everything that
// pods need ensured and binds proxies.
package objects
