// Package certs tests package certs against a real API server: several replicas agree on a certificate that the API
// server trusts, with no more rights than those on two objects.
package certs
