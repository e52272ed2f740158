// Package gate is the one place where objects of a target enter the source. Caches, informers and live reads of a
// target pass it, and so do writes. Code behind the gate need not ask again whether an object may be believed.
//
// A target's API server may answer whatever it likes, and other people than the source write there, too. So the gate
// believes no label. It lets pass:
//
//   - PodChaperons of allowed namespaces, with the name that the source gives to the delegate of the proxy. The source
//     must have placed them, or be placing them. A proof in an annotation shows this, also after a crash of the source.
//     Without a valid proof, the source's own objects decide: the proxy is bound to this target's node, or it is not
//     bound yet and older than the key of the proofs. A target can change neither. This serves upgrades and lost keys.
//   - Copies in allowed namespaces.
//   - The ClusterSummary, if CheckSummary accepts it.
//
// A PodChaperon without a valid proof may be an orphan: its proxy does not exist, or is bound to another node. Older
// managers left some. Orphans pass into caches, so that feedback ends them, but they hold no pod: see Parent.Orphan. An
// honest target loses nothing else by this. A hostile one makes us delete its own objects.
//
// An object in a cache that becomes unacceptable leaves the cache only. Live reads return a *ForgedError for it, which
// is not NotFound. So nobody takes a forgery for the loss of an object. Of an invalid ClusterSummary, the last valid
// one stays in the cache.
//
// The first list of a watch is of the present: see watch.AskForThePresent.
//
// # Use
//
// A Gate belongs to one engagement of a target.
//
//   - Gate.NewInformer is for cache.Options of controller-runtime.
//   - Gate.ListerWatcher is for informers that others make, for all kinds. It decodes no more than client-go does.
//   - Gate.Reader is for live reads, typed or of metadata. Lists leave out the items that Accept refuses. So the
//     absence of an item in a list proves nothing.
//   - Gate.Client is for writes, and for reads from a cache.
//   - ParentOf reads the proxy's name and UID. Nobody else reads these labels and annotations behind the gate.
//
// Package connect/target makes the gate, and hands it to observers in engage.Target.
package gate
