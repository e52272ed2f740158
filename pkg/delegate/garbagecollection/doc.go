// Package garbagecollection runs in target clusters. It removes the copies that sources made of their objects, when no
// pod needs them any more; sources need not know what they once wrote, and may be gone.
//
// A copy has the label parent-cluster-id and the annotation followed-by; nothing else is ever touched. A ConfigMap,
// Secret or ServiceAccount is needed while a PodChaperon of the same source, in whatever state, refers to it, or the
// copy of an Ingress names it as its TLS Secret; a Service, Ingress or EndpointSlice while the source has any
// PodChaperon in the namespace, or if it is global. What nobody has needed for a time is deleted as it was last seen
// (UID and resource version), so a copy that its source has just touched stays. Claims are never deleted: they are
// data.
//
// Sources touch a copy at most 20 s before they begin to bring what else a pod needs, which takes 45 s at most, and
// then create the PodChaperon. What is left of the two minutes is for that, and for the watch of PodChaperons to tell.
//
// Of copies only metadata is watched (but for Ingresses, because of those Secrets), and only with the label: what is in
// the cluster's own Secrets does not come near the manager. Who needs what is counted as PodChaperons come and go: an
// index would be asked, for a ConfigMap of thousands of pods, at the end of each. Since when something is not needed is
// remembered here alone, and a new leader begins anew.
package garbagecollection
