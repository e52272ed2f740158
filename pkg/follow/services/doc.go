// Package services copies Services, the endpoints of other clusters, and Ingresses into targets, so that the Services
// of elected pods reach these pods in every cluster.
//
// A Service is followed if its own EndpointSlices have endpoints on virtual nodes. Such a Service selects proxies, and
// nobody has to watch pods and their labels to find out. Following changes nothing in the source, because a proxy has
// the address of its delegate.
//
// Containers get variables with the addresses of Services when they start. So Ensure copies the Services that select a
// pod before the pod goes to the target, although they have no endpoints yet.
//
// The copy in a target selects delegates. So the target maintains the endpoints of its own pods, whichever other
// cluster is away. The source's other endpoints come as EndpointSlices: one for each of the source's own, written
// whenever that one changes.
//
// Copies are compared with their originals, and nothing about them is remembered. So a new leader has nothing to
// recover. A watch in the target shows the objects that are labelled as ours. It starts with the first Service that
// goes there, or with the first copy from earlier times. If the source reads the target by namespace, there is one in
// each namespace with copies, and the target's SourceGrant names those of earlier times. Ingresses have a watch of
// their own, because most namespaces have none.
//
// Once copied, a Service stays while the target has PodChaperons of the namespace, also without endpoints: it may be
// scaled to zero, or a new image may take long to pull. Its clients in the target know its address, and a recreated
// copy would have another. Without PodChaperons, the copy stays for two minutes while its original exists, because a
// rollout by re-creation brings pods back. Ingresses stay with their Services. An Ingress of which a target gets some
// Services, and not all, is not copied there, and has an event that says why.
//
// Several targets may lead to one cluster, at a time or one after the other: a renamed target is another target. Then:
//
//   - The target that made a Service or Ingress looks after it. The label target-hash names that target.
//   - Each target has EndpointSlices of its own.
//   - A target that no longer needs a copy hands it over to one that does. A recreated copy would have another address.
//   - A copy is orphaned if no engaged target of that cluster looks after it. A target that needs an orphaned copy
//     takes it over. An orphaned copy is deleted with its original.
//   - An orphaned copy that no engaged target needs is left to the target's own manager: a target that needs it may not
//     be engaged yet.
//
// In the source, Services, EndpointSlices and Ingresses are watched in enabled namespaces only, with one watch per
// namespace and kind. In a big cluster, the EndpointSlices of all other namespaces are many.
//
// # Meshes
//
// Cilium merges Services of one name (annotation service.cilium.io/global or io.cilium/global-service). For these, no
// EndpointSlices are written. The selector of the original becomes the selector of the delegates, so that each cluster
// contributes the pods that really run in it. The annotation original-selector keeps the user's selector, in the form
// "key=value,key=value".
//
// The user's selector is restored exactly, and we give up the ownership of its fields, when the Service is not followed
// or not merged any more. The same happens when its namespace is disabled, if a manager runs then. Rewriting and
// restoring are server-side applies with the field owner multicluster-scheduler.
//
// If somebody else writes the selector, that selector is the new original, and is rewritten once. If this happens again
// and again within minutes, an event says so, and the next rewriting waits. Argo CD leaves the selector alone with
//
//	spec:
//	  ignoreDifferences:
//	  - kind: Service
//	    managedFieldsManagers: [multicluster-scheduler]
//	  syncPolicy:
//	    syncOptions: [RespectIgnoreDifferences=true]
//
// A Service that has a ServiceExport (Multi-Cluster Services API) is not followed. Its own EndpointSlices have all the
// addresses, and the implementation of that API carries them to the other clusters. Whether the source has the kind
// ServiceExport is asked once, when we begin to lead.
package services
