//go:build !long

package hostile

const (
	// forgeries is how many forged PodChaperons a target sends: more than a target may have.
	forgeries = 25_000
	// trips is how many pods of each source are placed at least, for a percentile.
	trips = 50
	// tail is a percentile that leaves out five of the trips. Those of all lanes may meet a pause that others miss.
	tail = 90
)
