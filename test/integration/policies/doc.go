// Package policies runs pkg/follow with the API server of a source, which has NetworkPolicies and proxies. The tests
// play the scheduler, which has everything ensured that pods need.
package policies
