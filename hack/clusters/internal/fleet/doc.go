// Package fleet looks after all clusters of a checkout: it allots what they hold of the machine, starts and removes them
// at the same time, and removes what vanished checkouts left.
//
// What one command does in a checkout never overlaps with another command there: they queue for the checkout's lock. The
// lock of the machine's registry is held only to allot and to remove.
package fleet
