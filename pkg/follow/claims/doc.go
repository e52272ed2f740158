// Package claims sends pods where their PersistentVolumeClaims are, and creates claims in targets for users who ask for
// that.
//
// The contents of a volume are never copied, and nothing here may lose them. So there are four rules:
//
//   - A claim of the source that was made in a target stays bound to that target while the copy exists or cannot be
//     checked. The annotation followed-to names the target. If the target's cluster ID is known, the claim is bound to
//     that cluster, whatever the target's name is one day, and wherever its name leads. Emptying the annotation gives
//     up a copy in a cluster that cannot be reached. If a claim loses the annotation, the targets are asked where
//     it is. A target counts if it has a copy, or another claim that pods use in its place, and if nobody can ask it.
//   - A copy that may have data is deleted for one reason only: the source's API server has just answered that the very
//     claim for which the copy was made does not exist.
//   - A copy that has neither a volume nor a node is also taken back when its target refuses the pod, or when the pod
//     moves. So it is when it keeps a pod without a delegate from another target. Then another target can have the pod.
//     It stays if another pod uses it, or is about to. It also goes when its claim is in another cluster. A target may
//     make a copy long after we gave the request up.
//   - Claims that are not known to be our copies are left alone. These are other claims, copies of other sources, and
//     claims that were restored from a backup with our labels. A restored claim was not created at the time in its
//     annotation needed-at.
//
// To keep the volume of a copy, a user removes the label parent-uid from it. Then it is a claim of the target's own.
//
// Claims are watched by namespace: where pods ask for them, and where copies exist. If the source reads the target by
// namespace, the target's SourceGrant names the namespaces with copies. Such a watch runs in the source, and in each
// target to which these pods may go. It keeps a few words of each claim. Filter is answered from memory, which may be
// old. Writes rest on live reads. The one process that leads ensures a claim for one pod at a time.
//
// One exception: if the source's API server was restored from a backup, claims that are younger than the backup look
// deleted, and their copies are deleted, too.
package claims
