// Package version says which build this is.
package version

// Version is the release of this build, as in v0.18.0. The linker sets it (-ldflags -X); a plain `go build` leaves "dev".
var Version = "dev" //nolint:gochecknoglobals // the linker can only set a package variable
