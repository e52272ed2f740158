// Package wait waits for conditions of other processes. Because there is nothing to watch, it asks again at a short
// interval, until the context ends.
package wait
