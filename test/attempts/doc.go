// Package attempts is a table of what sources and tenants must and must not be able to do in a target. Two tests make
// these attempts, with real identities:
//
//   - test/integration/attempts, on an API server with the chart's roles, policies and webhook. It also writes the page
//     docs/attempts.md, and shows that the table fails if a policy only records, or a role has another verb.
//   - test/e2e, on a real cluster with the chart installed, and with tokens that `kubectl multicluster connect` made.
//
// A [World] is such a cluster. [World.Add] adds the identities, [World.Fill] creates the objects at which attempts are
// made, and [World.Differences] makes the attempts. All attempts are dry runs, which API servers authorize and admit as
// others.
package attempts
