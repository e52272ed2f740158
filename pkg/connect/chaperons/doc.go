// Package chaperons reads the PodChaperons of a target namespace by namespace, for sources that may not read them in
// the whole cluster.
//
// Nobody has to say which namespaces are needed: a namespace is watched from its first use on. An engagement begins
// with the namespaces that may hold a delegate. A namespace that holds nothing more and is not used is forgotten.
//
// There is one cache of controller-runtime for each namespace, because its cache for several namespaces takes all of
// them when it is made. Event handlers stay registered here, and get the events of namespaces that are added later.
//
// A namespace that the target refuses is asked for again after a pause, which doubles. The objects seen so far stay
// until the target has said for a minute, by the SourceGrant, that it has nothing of this source there: then the
// namespace counts as listed, and is empty. Before, no event says that they are gone, and nobody concludes from a
// missing object that it was deleted: reads of a namespace that was never listed return the refusal.
package chaperons
