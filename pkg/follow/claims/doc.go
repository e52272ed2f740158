// Package claims has pods go where their PersistentVolumeClaims are, and makes claims in targets for those who ask for
// it.
//
// What a volume holds is never copied, and nothing here may lose it. So there are three rules. A claim of the source
// that was made in a target stays bound to that target, by the annotation followed-to, for as long as the copy is there
// or nobody can look: to its cluster, where the ID of that is known, whatever the target is called one day, and
// whatever its name leads to. Removing the annotation gives up a copy in a cluster that cannot be reached. A copy is
// deleted when the API server of the source has just said that the very claim it was made for does not exist, and never
// for any other reason. And what is not known to be our copy is left alone: other claims, copies of other sources, and
// claims that were restored from a backup with our labels on them (their creation is not at the time that the
// annotation needed-at tells). Who wants to keep the volume of a copy takes the label parent-uid off it: then it is a
// claim of the target's own.
//
// Claims are watched where pods ask for them, by namespace, in the source and in every target that such pods may go to,
// and where there are copies; a few words are kept of each. Filter is answered from memory, which may be behind. What
// is written rests on live reads, and on one pod at a time having a claim brought somewhere, in the one process that
// leads.
//
// A source whose API server was set back to an older state has, as far as it can tell, deleted the claims made since;
// their copies are deleted, too.
package claims
