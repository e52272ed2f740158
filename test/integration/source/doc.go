// Package source tests package connect/source against a real API server: what it creates, changes and removes for
// Sources and ClusterSources, and what a source may then do.
package source
