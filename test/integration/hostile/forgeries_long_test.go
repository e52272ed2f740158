//go:build long

package hostile

// forgeries is how many forged PodChaperons a target sends: more than a target may have.
const forgeries = 100_000
