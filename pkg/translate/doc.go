// Package translate turns the objects of one pod's life into one another: elected pod, proxy, PodChaperon and delegate.
// It also turns the delegate's status into the proxy's, and derives the names and labels on which the clusters agree.
//
// Every function is pure, without a client and without a clock. The same input gives the same output in every replica
// and after every restart. So names are deterministic and retries are harmless.
//
// Objects are typed, so a delegate has only the fields that this build's Kubernetes libraries know. The proxy keeps all
// fields: admission patches only the fields that Proxy changes.
package translate
