// Package machine checks that a machine can run clusters, and installs the Debian packages that it lacks. What it cannot
// know in advance without trying (links, bridges) is reported by those who try.
package machine
