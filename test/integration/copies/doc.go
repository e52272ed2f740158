// Package copies tests a target against a real API server, with the chart's own roles and admission policy: what a source may do to objects there with
// the identity that it really has, what it may not, and what the target's manager removes.
package copies
