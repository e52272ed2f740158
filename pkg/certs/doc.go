// Package certs issues and renews the serving certificate of the admission webhook if cert-manager does not, and
// publishes the authority that API servers have to trust.
//
// A Secret holds the authority and the certificate. The chart creates the empty Secret, so that the manager needs no
// right to create Secrets. Every replica watches the Secret, serves its certificate from memory, and renews the
// certificate when due. The first replica to write wins, by optimistic locking; the others then find a certificate that
// is not due. No replica waits for a leader, a file or a restart.
//
// A certificate lasts three months and is replaced a month before its end; an authority lasts ten years and is replaced
// a year before its end. A replaced authority stays trusted until it expires. A new authority signs nothing for an
// hour, until every API server has heard of it.
//
// The cert-controller of the Open Policy Agent does not fit. It serves from a mounted Secret, which kubelets update up
// to two minutes late, and replaces the trusted authority in one step. Webhook calls would fail in between.
package certs
