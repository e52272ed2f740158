// Package follow makes the objects that pods need follow them to their targets. It is the facade that scheduling calls.
//
// Packages objects (ConfigMaps, Secrets, ServiceAccounts), claims (PersistentVolumeClaims) and services (Services,
// EndpointSlices, Ingresses) are equals below it; package writer writes the copies for all of them. This package keeps
// the time budget, and the order in which they are asked.
package follow
