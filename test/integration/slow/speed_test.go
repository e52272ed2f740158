//go:build !long

package slow

// speed is how many times faster the clock of the parts under test is. Requests have the deadlines of the wall's clock.
const speed = 5
