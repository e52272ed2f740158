// Package objects copies the ConfigMaps, Secrets and ServiceAccounts that pods refer to into the targets of these pods.
//
// Before scheduling places a pod, a Follower ensures the copies in the target. It carries later changes to all targets
// whose pods need the object. The three kinds differ only in the fields that are copied (kinds.go). Package writer
// writes copies, and never anything else. The target's manager deletes copies that no pod needs. See
// docs/design/following.md.
//
// The objects that proxies refer to are counted from the manager's cache of pods. Each collection (a kind in a
// namespace) that proxies refer to has one metadata watch, which keeps the name and version of each object. Contents
// are not kept. So a namespace costs one list of metadata, and memory for all of its objects, even for those that no
// pod refers to: 1.1 MB for 10,000 ConfigMaps (BenchmarkNamespaceOfConfigMaps). Watching single objects by name would
// cost one watch for each.
//
// Contents are read when they are written to a target. This costs one read for every write. Keeping them would cost
// memory for every Secret, and be a place from which a Secret could leak.
//
// A Follower remembers, for each engagement of a target, which versions it wrote. A new engagement writes everything
// that pods there need once more; the API server ignores a write that changes nothing. Secrets of targets are not
// watched. If somebody deletes a copy that pods need, the next change of the original restores it. So does the next pod
// that is placed there more than five minutes after the copy was written, and a delegate that cannot start without the
// copy (Repair).
package objects
