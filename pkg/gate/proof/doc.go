// Package proof proves to a source that it made a PodChaperon, for one proxy and one target.
//
// The proof is a MAC (HMAC-SHA256) in an annotation of the PodChaperon. Its key is in a Secret of the source, so
// nobody in a target can make a proof. A proof that somebody copies from a PodChaperon is good for that PodChaperon
// only. A signature would do the same, but nobody else has to verify it. A record in the source would be one more write
// for each pod.
//
// The chart creates the Secret empty, so that the manager needs no right to create Secrets. A [Keeper] on the leader
// fills it. Only the leader does: while a leader of a version without proofs goes on placing pods, a key would be too
// early. [Keys.CreatedAt] says since when every PodChaperon has a proof. For older ones, other facts decide, and so
// they do when the key was lost. So a key needs no backup, and to replace the key, an administrator empties the Secret.
package proof
