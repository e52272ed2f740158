//go:build long

package hostile

const (
	forgeries = 100_000
	trips     = 200
	tail      = 99
)
