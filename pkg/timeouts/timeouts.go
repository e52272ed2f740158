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
	// EnsureObjects is the part of EnsureNeeds for ConfigMaps, Secrets, ServiceAccounts and Services. Claims come after
	// them.
	EnsureObjects = 30 * time.Second
	// EnsureServices is how long a pod waits for copies of Services, within EnsureObjects. It then goes without.
	EnsureServices = 5 * time.Second
	// EnsureNeeds is the time that the source has to ensure everything that one pod needs. It is less than the sum of
	// the deadlines of all requests. An attempt that runs out of time fails, and the next one continues from what this
	// one wrote.
	EnsureNeeds = 46 * time.Second
	// CreationTurn is how long a pod waits, after that, until few enough PodChaperons are being created in the target.
	CreationTurn = 20 * time.Second
	// UnusedCopies is how long a target's manager waits before it deletes a copy that no PodChaperon needs.
	UnusedCopies = 2 * time.Minute
)

// BindingRace is for how long an API server may take a pod that is bound for one that is not. If it read the pod
// before, it deletes the pod with a grace period of 0, whatever the user asked for. Store.Delete in
// k8s.io/apiserver/pkg/registry/generic/registry keeps the grace period of its first look.
const BindingRace = 5 * time.Second

// The end of a delegate that may not exist yet. A source asks the target's manager for it, and later deletes the
// PodChaperon itself, if the manager does not answer. Then no request to create the delegate may be under way.
const (
	// FreshChaperon is the age up to which the target's manager creates the delegate of a PodChaperon without asking
	// the API server whether the PodChaperon is still wanted.
	FreshChaperon = 10 * time.Second
	// ReconcileChaperon is the deadline of all requests for one PodChaperon together.
	ReconcileChaperon = 30 * time.Second
	// ManagerPatience is how long a source waits for the target's manager before it deletes the PodChaperon itself.
	ManagerPatience = 45 * time.Second
)

// The Lease that a source holds in a target.
const (
	// HoldDuration is how long after the last renewal that it saw the next leader of the same source takes the Lease.
	// It is not longer than the election of this leader takes.
	HoldDuration = LeaseDuration
	// HoldRenewal is how often the source renews the Lease.
	HoldRenewal = 5 * time.Second
	// HoldEnds is how long after its last renewal a source ends its work in the target.
	HoldEnds = 12 * time.Second
	// HoldDurationWary and HoldEndsWary take their place in a target whose answers come late or fail. The Lease has the
	// duration on which its holder relies.
	HoldDurationWary = 40 * time.Second
	HoldEndsWary     = 37 * time.Second
	// HoldOfOthers is how long after the last renewal that it saw a source takes the Lease that another manager held
	// while this one led its own cluster. So this manager is of another cluster: a copy, or the one that was copied.
	HoldOfOthers = 10 * time.Minute
)

// The Lease of a target's manager.
const (
	// PresenceRenewal is how often the target's manager renews its Lease.
	PresenceRenewal = 10 * time.Second
	// PresenceRetry is how soon the target's manager tries again after it could not renew.
	PresenceRetry = 2 * time.Second
	// SilentAfter is how long a source sees no renewal before it takes the target's manager for silent.
	SilentAfter = 28 * time.Second
	// SilentWithin is how soon after the last renewal a source notices silence.
	SilentWithin = 40 * time.Second
	// Health is how often a source looks whether a target is healthy. PresenceDoubt is how often it looks for a renewal
	// that it expected earlier.
	Health        = 10 * time.Second
	PresenceDoubt = 5 * time.Second
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

// Fencing: a target stops delegates whose source it has not heard of. All times of the target begin with the last
// renewal of the source's Lease that its manager saw, and those of the source with the last renewal that it sent.
const (
	// FenceLeast and FenceMost bound the time after which delegates are fenced. A source that crashes, or loses the
	// connection for a moment, is heard of again within FenceLeast.
	FenceLeast = time.Minute
	FenceMost  = 24 * time.Hour
	// FenceBlind is the longest time between two renewals of its own Lease, as its watch shows them, in which a
	// target's manager counts as seeing. In a longer one it could not have seen a source either.
	FenceBlind = 25 * time.Second
	// FenceReaction is how long it takes until the kubelet knows that a delegate is fenced.
	FenceReaction = 20 * time.Second
	// FenceSlack is how much later than the fence and the grace period together a fenced delegate may end.
	FenceSlack = time.Minute
	// FenceRestart is how long nobody leads the target's managers after the leader is gone, until the next one sees.
	FenceRestart = time.Minute
)

// FenceHolds returns how long after its source's last renewal a delegate ends at the latest, given the time after which
// it is fenced and its grace period. The leader of the target's managers must not change meanwhile.
func FenceHolds(fence, grace time.Duration) time.Duration { return fence + FenceSlack + grace }

// FenceHoldsAfterRestart is FenceHolds with at most one change of the leader of the target's managers. The next leader
// begins to count when it begins to lead.
func FenceHoldsAfterRestart(fence, grace time.Duration) time.Duration {
	return fence + FenceRestart + FenceHolds(fence, grace)
}
