// Package podcache says what the manager's one cache of pods, and that of nodes, keeps in memory.
//
// A target cluster may have a hundred thousand pods of which few are ours, and capacity has to count them all. Two caches,
// one of our pods and one of all pods' metadata, would not do: what a pod requests is in its spec and, once resized in
// place, in its status. So there is one cache, every pod is cut down to what decides its requests, and proxies and delegates, of which
// there may be ten thousand, keep what is read of them besides: their status, and little else. Who reads a pod from the cache must
// not write it back as a whole object.
package podcache
