// Package engage holds the engaged targets: the target clusters with which this manager works right now.
//
// All packages share one connection and one cache per target. Package connect/target engages and disengages targets;
// proxy, vk and follow observe them. Each engagement has a context; whatever an observer starts for the target stops
// with it. Workers, PerTarget and OnEvents are the set-up that observers have in common.
//
// A target is out of reach as soon as the source may not act there (Registry.Lapse), and lost when its API server has
// not answered for some time (Registry.Lose). It stays engaged with its cache as it was. When the server answers
// again, the target is engaged anew, with a fresh cache, before the old engagement ends. So no observer handles
// a return.
//
// multicluster-runtime (sigs.k8s.io/multicluster-runtime) engages clusters in a similar way. It does not fit. There,
// all clusters share the queue and the workers of a controller, so a cluster that hangs delays the others. It also has
// no state for a cluster that is lost but stays engaged.
package engage
