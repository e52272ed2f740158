// Package build builds programs from Go modules with the Go program of the machine. What is up to date by its stamp (the
// versions in go.mod, the flags, the version of Go) is not looked at again; what is not is for the most part in Go's
// build cache, which all checkouts of a machine share.
package build
