// Package identity knows which cluster a target belongs to, and notices when another one answers under its name: the
// Secrets of two targets were swapped, a name leads elsewhere, or a cluster was rebuilt.
//
// A target belongs to the cluster whose ID is in spec.clusterID, or else in status.clusterID, which keeps the ID that
// was seen first. The cluster that answers tells its ID in its ClusterSummary. An [Identity] compares the two:
//
//   - before the cache of an engagement starts, and every minute; without a Lease, at each health check;
//   - before a new connection is used: its address must have told the right ID on another new connection. So no request
//     reaches another cluster that has got the address;
//   - after each answer that says which objects do not exist: lists, watches, and reads that find nothing. A front may
//     pass requests of one connection on to another cluster. Such an answer counts only once the cluster has told its
//     ID after it. So no pod looks deleted, even between two checks.
//
// Once another cluster has answered, the engagement is over. Nothing is deleted in either cluster, and no proxy is.
//
// # What it is no protection against
//
// A hostile cluster can tell any ID. The identity protects against mistakes. What a hostile cluster can do is limited
// by package gate, and the servers are told apart by the certificate authorities and credentials of the kubeconfigs.
//
// So the ID proves nothing where a lie would help the target. That a target is the source itself is proved by
// [SameServer]: both connections end at a server with the same private key. A nonce that is written through the one
// connection and read through the other would prove less. The target may itself be a source of this cluster, and pass
// the nonce on with its own credentials.
package identity
