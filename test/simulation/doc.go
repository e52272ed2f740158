// Package simulation tests the protocol between a source and its targets by a simulation of all clusters in one
// process. Its tests drive the product's own code through many random runs: they delay, reorder, repeat and lose
// messages, and end processes at every step. After each step they check what must always be true, and at the end of a
// run that everything settles. See docs/design/model.md.
package simulation
