// Package attempts tries what sources and tenants must and must not be able to do in a target, with real identities on
// a real API server. The table of attempts is also the page docs/attempts.md: `go test ./test/integration/attempts
// -update` writes it. All writes are dry runs, which API servers authorize and admit as others.
package attempts
