// Package follow copies the objects that pods need to their targets. It is the facade that scheduling calls.
//
// Packages objects (ConfigMaps, Secrets, ServiceAccounts), claims (PersistentVolumeClaims) and services (Services,
// EndpointSlices, Ingresses) are equals below it. Package writer writes the copies for all of them. This package keeps
// the time budget, and the order in which it calls the others.
package follow
