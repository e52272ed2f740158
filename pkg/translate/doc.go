// Package translate turns the objects of one pod's life into one another: the elected pod into the proxy pod, the proxy
// into the PodChaperon, the PodChaperon into the delegate pod, and the delegate's status into the proxy's. It also
// derives the names and labels on which the clusters agree.
//
// Everything here is a pure function, without a client and without a clock: the same input gives the same output in every
// replica and after every restart, which is what makes names deterministic and retries harmless.
//
// The price of typed objects is that a delegate has only the fields that this build's Kubernetes libraries know. The
// proxy is not subject to that: admission patches the fields that Proxy changes and leaves the others as they are.
package translate
