// Package porttest finds ports for programs that tests run.
package porttest
