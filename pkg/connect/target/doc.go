// Package target connects the source cluster to its targets at run time: it reads ClusterTargets, Targets and their
// Secrets, puts what can be reached into an engage.Registry, and says in the condition Connected how that went.
//
// One goroutine per target does all that may hang: it connects, engages, and then reads the target's ClusterSummary
// every ten seconds. The controller itself only hands the goroutine what is wanted and writes down what it found, so
// that a target that does not answer costs the others nothing. Three misses in a row make a target unreachable; it
// stays engaged, with its cache as it was. When it answers again it is engaged anew instead of waiting for the old
// cache's watches, which sleep up to half a minute before they look again: reachable always means that the cache is
// fresh. New credentials are tried before the old engagement ends.
//
// Secrets are watched one by one, by name, and only while a target refers to them; who reads all Secrets of the cluster
// is a target worth attacking. There are no finalizers on targets: when one is deleted its PodChaperons, and the copies
// of Services and Ingresses that were made for it, go with it if its cluster can be reached, and otherwise, or while no
// manager runs, they stay there. Copies stay, too, where another target leads to the same cluster: package
// follow/services hands them over. The same holds where a target is made to lead to another cluster, as nobody can tell
// that from a new address of the old one.
//
// A transport of our own for each engagement, instead of the one that client-go shares, lets connections that died
// silently be noticed within fifteen seconds, and not outlive the engagement.
//
// Rights needed in the source cluster: clustertargets, targets get, list, watch; clustertargets/status, targets/status
// patch; events (events.k8s.io) create, patch; secrets get, list, watch, which may be limited to the namespaces of the
// Secrets, or to their names. For self targets, to its own account, those needed in a target cluster: podchaperons
// create, get, list, watch, patch, delete; clustersummaries get, list, watch (the resource name singleton is enough);
// services, endpointslices, ingresses list, delete, where they are followed; for a Target, all but the summaries only
// in its namespace; and discovery, which every authenticated user has.
package target
