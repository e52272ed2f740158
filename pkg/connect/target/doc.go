// Package target connects the source cluster to its targets at run time. It reads ClusterTargets, Targets and their
// Secrets, puts the targets that answer into an engage.Registry, and writes the condition Connected.
//
// One goroutine per target makes every request that may hang. It connects, engages, and then checks the target's health
// every ten seconds. Renewals of the Lease of package hold say whether the target answers, and the ClusterSummary is
// read once a minute: it says which cluster answers. Without a Lease it is read at each check. The controller only
// passes the desired connection to the goroutine, and writes the goroutine's finding to the status. So a target that
// does not answer delays no other.
//
// After three failed health checks in a row a target is lost. It stays engaged, with its cache as it was. When it
// answers again, it is engaged anew, because the watches of the old cache may sleep for half a minute before they try
// again. So the cache of a reachable target is always fresh. New credentials are tried before the old engagement ends.
//
// Each engagement has a transport of its own, instead of the one that client-go shares. So connections that died
// silently are noticed within fifteen seconds, and no connection outlives its engagement.
//
// Package token renews tokens that expire. Requests read the newest one, so a new token needs no new engagement.
//
// When another cluster answers under the name of a target, the engagement ends at once, and nothing is deleted: see
// package identity. The target is tried again, in case that was a mistake. Setting spec.clusterID accepts the new
// cluster.
//
// Secrets are watched one by one, by name, and only while a target refers to them. A manager that reads all Secrets of
// a cluster would be worth attacking. A Secret that is deleted or broken does not end a connection that works. The last
// credentials are kept in memory until the target refuses them.
//
// # Deleted targets
//
// Targets have no finalizers. When a target is deleted, its PodChaperons are deleted in its cluster, and so are the
// copies of Services and Ingresses that were made for it.
//
// The loop tries again for ten minutes, with a new connection if need be. An event says what stays then. It is
// done when no request that somebody has begun can create another PodChaperon, and the API server shows none: see
// creations.
//
// There are exceptions.
//   - All of them stay if the cluster does not answer for so long, or if no manager runs at that time.
//   - Copies stay if another target leads to the same cluster. Package follow/services hands them over.
//   - All of them stay in the old cluster when a target is changed to lead to another cluster, and somebody accepts
//     this. Nothing leads to the old cluster any more.
//
// # Rights
//
// In the source cluster:
//   - get, list and watch clustertargets and targets
//   - patch clustertargets/status and targets/status
//   - create and patch events (events.k8s.io)
//   - get, list and watch secrets, which may be limited to the namespaces of the Secrets, or to their names
//
// A cluster that is its own target needs the rights of a source for the manager's own account:
//   - create, get, list, watch, patch and delete podchaperons
//   - get, list and watch clustersummaries; the resource name singleton is enough
//   - list and delete services, endpointslices and ingresses, where they are followed
//   - discovery, which every authenticated user has
//
// A Target needs these rights only in its namespace, except those on clustersummaries and discovery. So does a
// ClusterTarget in its namespaces: package chaperons reads PodChaperons one namespace after the other.
package target
