// Package idle tests, against a real API server, pods on virtual nodes that are no proxies, and the chart's policy that
// keeps DaemonSets off virtual nodes. The part under test has the rights of the chart.
package idle
