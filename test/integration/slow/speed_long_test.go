//go:build long

package slow

// speed is how many times faster the clock of the parts under test is.
const speed = 1
