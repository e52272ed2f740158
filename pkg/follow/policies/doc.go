// Package policies says, by an event of a NetworkPolicy, that the policy does not apply to the delegates of the pods
// that it selects. NetworkPolicies are not copied: they are about the network of one cluster, and select from all of
// its pods. Nobody would notice that a policy is missing in a target.
//
// A policy concerns elected pods if it selects a pod that is about to go to a target. Scheduling has the labels of this
// pod, so this costs no request. When a policy is new, or selects other pods than before, there may be such pods
// already. Then the API server is asked once for some proxies that the policy selects.
//
// The event appears once for each policy and leader, and again when further pods go to a target an hour later: API
// servers keep events for an hour. All policies together have a budget of events.
//
// One watch shows the NetworkPolicies of the whole cluster. Of each it keeps the name and the selector
// (BenchmarkPolicies measures the memory). A watch for each enabled namespace would cost a stream and buffers for each.
package policies
