// Package build builds programs from Go modules with the machine's Go toolchain.
//
// Each program has a stamp, which identifies the versions in go.mod, the flags and the version of Go. The package does
// not build a program again while its stamp is the same. The other builds are fast for the most part, because all
// checkouts of a machine share Go's build cache.
package build
