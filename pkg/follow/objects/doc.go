// Package objects has the ConfigMaps, Secrets and ServiceAccounts that pods refer to go with them into targets.
//
// A Follower brings them before a pod is placed, for scheduling, and carries later changes to all targets whose pods
// need them. All three kinds go the same way; they differ in which fields go (kinds.go). How copies are written, and
// never anything else, is package copies; when they are removed, the target's manager decides. See
// docs/design/following.md.
//
// What proxies refer to is counted from the manager's cache of pods. Of the source's objects a name and a version are
// kept, for each collection (a kind in a namespace) that proxies refer to: one metadata watch, so a namespace costs
// what it holds, also what no pod refers to, but no contents: of 10,000 ConfigMaps 1.1 MB were measured
// (BenchmarkNamespaceOfConfigMaps), and one list of their metadata. Watching single objects by name would cost a watch
// for each. Contents are read when they are written to a target: a read for every write, instead of memory for every
// Secret and a place where it could leak from.
//
// What was written is remembered for each engagement of a target, and until it could not be reached; then all that pods
// there need is written once more, which the API server takes for no change unless there is one. Targets' Secrets are
// not watched. A copy that somebody deletes while pods need it comes back with the next change, or with the next pod
// that is placed there more than five minutes after it was written.
package objects
