// Breakages says how soon tests notice that the product is broken: the simulation in test/simulation, or the suite of
// faults in test/faults.
//
// It breaks the product in one place at a time, and runs the tests with that. The checkout stays as it is: the compiler
// reads the broken file in place of the real one. For each breakage it prints how long it took until the tests failed.
// It fails if a breakage was not found that should be.
//
// Usage: go run ./hack/breakages [-clusters] [-runs N] [-first SEED] [-page FILE] [NAME...]
package main
