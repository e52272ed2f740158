// Package podcache says what the manager's one cache of pods, and that of nodes, keeps in memory.
//
// A target cluster may have a hundred thousand pods of which few are ours, and capacity has to count them all. Two caches,
// one of our pods and one of all pods' metadata, would not do: what a pod requests is in its spec and, once resized in
// place, in its status. So there is one cache, proxies and delegates are kept whole, and every other pod is cut down to what
// decides its requests. Who reads such a pod from the cache must not write it back as a whole object.
package podcache
