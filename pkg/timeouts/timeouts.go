package timeouts

import "time"

// Request is the deadline that a source's manager gives one request, to its own API server or to a target's. The
// connection to a target has a longer one, for requests that come with none.
const Request = 10 * time.Second

// Copies of what a pod needs. The source creates them before the PodChaperon that keeps them, and the target's manager
// deletes those that no PodChaperon keeps.
const (
	// TouchedFor is how long a copy that was touched for a pod is not touched again for the next one.
	TouchedFor = 20 * time.Second
	// EnsureObjects is the part of EnsureNeeds for ConfigMaps, Secrets and ServiceAccounts. Claims come after them.
	EnsureObjects = 30 * time.Second
	// EnsureNeeds is the time that the source has to ensure everything that one pod needs. It is less than the sum of
	// the deadlines of all requests. An attempt that runs out of time fails, and the next one continues from what this
	// one wrote.
	EnsureNeeds = 45 * time.Second
	// UnusedCopies is how long a target's manager waits before it deletes a copy that no PodChaperon needs.
	UnusedCopies = 2 * time.Minute
)

// The Lease of the leader.
const (
	// LeaseDuration is how long after the last renewal another replica may begin to lead.
	LeaseDuration = 15 * time.Second
	// LeaseRetry is how often a leader renews its Lease, and others look at it.
	LeaseRetry = 2 * time.Second
	// LeaseRenewal is how long a leader tries to renew its Lease before it gives up.
	LeaseRenewal = 10 * time.Second
	// LeaseEndsProcess is how long after its last renewal a leader ends its process.
	LeaseEndsProcess = LeaseDuration - LeaseRetry
)
