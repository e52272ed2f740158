// Package targetkind lets one implementation serve both ClusterTargets and Targets.
//
// The key of a target is its namespaced name. The namespace of a ClusterTarget is empty, so keys of the two kinds never
// collide, and one controller can serve both. Several parts of the manager write conditions without knowing of one
// another: each writes its own conditions by server-side apply.
package targetkind
