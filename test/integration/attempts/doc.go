// Package attempts makes the attempts of test/attempts on an API server, with real identities. It also writes the page
// docs/attempts.md: `go test ./test/integration/attempts -update`.
package attempts
