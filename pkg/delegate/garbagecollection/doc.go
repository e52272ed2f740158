// Package garbagecollection runs in target clusters. It deletes the copies that sources made of their objects, when no
// pod needs them any more. Sources need not remember the copies that they wrote, and may be gone.
//
// A copy has the label parent-cluster-id and the annotation followed-by. Other objects are never deleted. Whether a
// source has the user of followed-by does not matter: copies outlive their source. The admission policy lets nobody set
// the annotation for another user.
//   - A ConfigMap, Secret or ServiceAccount is needed while a PodChaperon of the same source, in any state, refers to
//     it. A Secret is also needed while the copy of an Ingress names it for TLS.
//   - A Service, Ingress or EndpointSlice is needed while the source has a PodChaperon in the namespace, or if it is
//     global.
//   - An EndpointSlice whose Service is gone, or is not a copy of the same source, is deleted at once. Otherwise a
//     source could leave endpoints to the next Service of that name. Package admission refuses to write such
//     EndpointSlices.
//   - Claims are never deleted, because they are data.
//
// A copy that was not needed for timeouts.UnusedCopies is deleted with its UID and resource version as preconditions.
// So a copy that its source has just touched stays. An EndpointSlice without a Service that its source has just touched
// does not stay, but one that somebody has just made their own does.
//
// A source touches a copy at most timeouts.TouchedFor before it begins to ensure the pod's other needs. This takes at
// most timeouts.EnsureNeeds. Then the source waits for its turn, for timeouts.CreationTurn at most, and creates the
// PodChaperon. The rest of timeouts.UnusedCopies is for this request, and for the watch of PodChaperons.
//
// A source writes the copy of an Ingress once its Secrets are there. So whoever deletes a Secret asks the API server
// for the Ingresses of its source.
//
// Only the metadata of labelled objects is watched, so the content of the cluster's own Secrets never reaches the
// manager. Ingresses are an exception, because they name Secrets. Uses are counted as PodChaperons come and go. The
// alternative, an index, would have to be asked at the end of each of the thousands of pods that share a ConfigMap. The
// times since when copies are not needed are kept in memory only. A new leader starts again.
package garbagecollection
