// Package services has the Services of elected pods reach them in every cluster: it copies Services, the endpoints of
// other clusters, and Ingresses into targets.
//
// A Service is followed where its own EndpointSlices have endpoints on virtual nodes: that says that it selects
// proxies, without a watch of pods and their labels. In the source nothing is changed then, as the addresses of proxies
// are those of their delegates. The copy in a target selects delegates, so that the target keeps their endpoints
// itself, whoever else is away; the source's other endpoints come as EndpointSlices, one for each of the source's own,
// written on each of its changes.
//
// Copies and what they came from are compared, never remembered: what is in a target is seen through a watch there of
// what is labelled as ours, started with the first Service that goes there. So a new leader has nothing to recover. A
// copy that is not wanted any more, while its original is still there, stays for two minutes: pods come back after a
// rollout by re-creation.
//
// Several targets may lead to one cluster, at a time or, as a renamed one does, one after the other. Services and
// Ingresses are then looked after by the one that made them, whose label target-hash they have, and each has
// EndpointSlices of its own. Who no longer needs a copy hands it over to one that does: made anew, it would have
// another address. What no engaged target of that cluster looks after is taken over by one that needs it, and deleted
// with its original; if it is not needed otherwise, it is left to the target's own manager, as a target that needs it
// may not be engaged yet.
//
// In the source, Services, EndpointSlices and Ingresses are watched in enabled namespaces only, one watch per namespace
// and kind: in a big cluster the EndpointSlices of all others are many.
//
// # Meshes
//
// Where Cilium merges Services of one name (annotation service.cilium.io/global or io.cilium/global-service), no
// EndpointSlices are written. The selector of the original becomes that of the delegates, as each cluster then
// contributes the pods that really run in it; the user's is kept in the annotation original-selector, in the form
// "key=value,key=value". It is put back exactly when the Service is not followed or not merged any more, and we give up
// the ownership of its fields; also when its namespace is disabled, if a manager runs then. Both are server-side
// applies with the field owner multicluster-scheduler. When somebody else writes the selector, what they wrote is the
// new original, and is rewritten once; when that happens again and again within minutes, an event tells, and we wait.
// Argo CD leaves the selector alone with
//
//	spec:
//	  ignoreDifferences:
//	  - kind: Service
//	    managedFieldsManagers: [multicluster-scheduler]
//	  syncPolicy:
//	    syncOptions: [RespectIgnoreDifferences=true]
//
// A Service that has a ServiceExport (Multi-Cluster Services API) is not followed: its own EndpointSlices have all the
// addresses, and what implements that API carries them to the other clusters. Whether the kind exists is asked once,
// when we begin to lead.
package services
