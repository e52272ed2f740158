// Package machine checks whether a machine can run clusters, and installs the Debian packages that it lacks. It does
// not check for links and bridges: only making one shows whether the kernel supports them, and package network reports
// that.
package machine
