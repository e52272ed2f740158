// Package podcache decides which fields of pods and nodes the manager's caches keep in memory.
//
// A target cluster may have a hundred thousand pods. Few of them are ours, but capacity has to count all of them. A
// pod's requests are in its spec and, once it is resized in place, in its status. So two caches, one of our pods and
// one of all pods' metadata, are not enough.
//
// Instead, there is one cache. Of every pod it keeps the fields that decide the pod's requests. There may be ten
// thousand proxies and delegates. Of these, it also keeps the few other fields that the manager reads, mainly the
// status.
//
// The package also has the one index of proxies by node, which several parts of a source read.
//
// Never write a pod from the cache back as a whole object.
package podcache
