// Package certs issues and renews the serving certificate of the admission webhook where cert-manager does not, and tells API servers
// which authority to trust.
//
// A Secret, which the chart makes empty so that the manager needs no right to create any, holds the authority and the certificate. Every
// replica watches it, serves what is in it from memory, and renews it when due; the first to write wins, by optimistic
// locking, and the others find a certificate that is not due. There is no leader to wait for, no file and no restart.
//
// A certificate lasts three months and is replaced a month before its end, an authority ten years and one. An authority that is replaced
// stays trusted until it expires, and the new one signs nothing for an hour, so that every API server has heard of it by then.
//
// The library of the Open Policy Agent for this (cert-controller) was not chosen: it reads the certificate from a mounted Secret, which takes a kubelet
// up to a minute or two to show, and replaces the authority in one step.
package certs
