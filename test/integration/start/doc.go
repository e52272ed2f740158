// Package start tests a manager that starts while its API server does not answer.
package start
