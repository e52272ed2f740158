// Package version holds the release of this build.
package version

// Version is the release of this build, for example v0.18.0. The linker sets it (-ldflags -X). After a plain `go
// build`, it is "dev".
var Version = "dev" //nolint:gochecknoglobals // the linker can set only package variables
