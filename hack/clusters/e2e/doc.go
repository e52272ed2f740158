// Package e2e tests the program clusters as a person uses it: on this machine, with real clusters, in checkouts of their
// own beside whatever else runs here. Its tests need root, some minutes the first time, and the build tag e2e.
package e2e
