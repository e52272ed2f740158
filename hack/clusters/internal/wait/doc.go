// Package wait waits for conditions of other processes, which offer nothing to watch: it asks again at a short interval,
// until the context's deadline.
package wait
