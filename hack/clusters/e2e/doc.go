// Package e2e tests the program clusters as a person uses it: on this machine and with real clusters. The tests use
// checkouts of their own, beside anything else that runs here. They need root and the build tag e2e. The first run
// takes some minutes.
package e2e
