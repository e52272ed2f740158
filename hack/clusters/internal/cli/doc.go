// Package cli is the command line of the program clusters.
package cli
