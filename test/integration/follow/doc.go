// Package follow runs the package follow between the API servers of a source and a target, as an identity that has a source's rights there and is held by
// the chart's admission policy. It plays the scheduler, which brings what pods need and binds proxies.
package follow
