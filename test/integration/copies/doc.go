// Package copies tests a target against a real API server, with the chart's own roles and admission policy. It tests
// which copies a source may write with the identity that it really has, and which copies the target's manager deletes.
package copies
