// Package targetkind lets one implementation serve both ClusterTarget and Target.
//
// A target is keyed by its namespaced name; ClusterTargets are those with an empty namespace, so keys of the two kinds never
// collide and one controller can serve both. Statuses are written by server-side apply, one owner per condition, so that
// the parts of the manager that write conditions need not know of each other.
package targetkind
