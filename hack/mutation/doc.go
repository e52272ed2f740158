// Command mutation tests the unit tests of packages: it changes one operator at a time, and at least one test of the
// package should fail. Its arguments are folders.
//
// The changes (mutants) are those of gremlins. A comparison is negated, or its bound is moved by one. + and - change
// places, and so do * and /, ++ and --, && and ||. The program compiles all mutants of a package into one test
// program, each behind a switch, and runs it once for each mutant. The first run has no mutant. It tells how long the
// tests take, and which mutants they reach. A mutant that no test reaches lives, and is not run.
//
// Constants cannot have a switch. Their mutants are counted as not tried.
//
// explained.txt lists mutants that may live, with the reasons.
package main
