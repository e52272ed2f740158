package fit

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// uidPrefix is how many characters of a UID ClusterSummaries list.
	uidPrefix = 8
	// countedAfter is the time after which every ClusterSummary counts a delegate that was seen scheduled. It matters
	// only for delegates that the summary does not list, because it counted too many others meanwhile.
	countedAfter = 10 * time.Second
)

// Ledger keeps the room of one target. The room is the target's ClusterSummary less the pods that the source placed
// there and the summary does not count yet. Each pod is subtracted exactly once, in whatever order its delegate and the
// summary arrive. A Ledger is safe for concurrent use.
type Ledger struct {
	clusterID string
	clock     clock.PassiveClock
	now       atomic.Pointer[Room]
	stale     atomic.Bool  // now must be computed anew
	roomier   atomic.Int64 // how often a summary showed more room
	queues    atomic.Pointer[[]queued]

	mu      sync.Mutex // guards the fields below, and writing now and stale
	summary *Room      // as the summary shows it; nil while there is none
	counted map[string]struct{}
	unseen  map[types.UID]*unseenPod
	placed  int // how many pods were ever placed
}

// unseenPod is a pod that was placed and that the summary does not count yet.
type unseenPod struct {
	demand    *Demand
	order     int
	scheduled time.Time // when its delegate was seen scheduled, or zero
	queue     string    // the namespace if it waits in a queue of the target, or empty
}

// NewLedger makes a Ledger without a ClusterSummary. clusterID is the source's, by which summaries list its pods.
func NewLedger(clusterID string, c clock.PassiveClock) *Ledger {
	l := &Ledger{clusterID: clusterID, clock: c, unseen: map[types.UID]*unseenPod{}}
	l.queues.Store(&[]queued{})
	return l
}

// Room returns the room now; nil while there is no ClusterSummary.
func (l *Ledger) Room() *Room {
	l.refresh()
	return l.now.Load()
}

func (l *Ledger) refresh() {
	if l.stale.Load() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.subtract()
	}
}

// Roomier returns how many summaries showed more room than there was before.
func (l *Ledger) Roomier() int64 { return l.roomier.Load() }

// Place subtracts a pod that is given to the target.
func (l *Ledger) Place(pod types.UID, demand *Demand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.unseen[pod]; known || l.counts(pod) {
		return
	}
	l.placed++
	l.unseen[pod] = &unseenPod{demand: demand, order: l.placed}
	if room := l.now.Load(); room != nil && !l.stale.Load() {
		l.now.Store(room.With(demand))
	}
}

// Scheduled notes that the pod's delegate is seen scheduled.
func (l *Ledger) Scheduled(pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if unseen, ok := l.unseen[pod]; ok && unseen.scheduled.IsZero() {
		unseen.scheduled = l.clock.Now()
	}
}

// Remove gives back what Place subtracted for a pod that the target does not have, and returns whether that made room.
func (l *Ledger) Remove(pod types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.counted, prefix(pod))
	if _, ok := l.unseen[pod]; !ok {
		return false
	}
	delete(l.unseen, pod)
	l.stale.Store(true) // Often many are removed at once.
	return true
}

// Update replaces the summary, and returns whether a pod may fit now that did not before. A nil summary means that
// there is none.
func (l *Ledger) Update(summary *v1alpha1.ClusterSummary) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale.Load() {
		l.subtract()
	}
	before := l.now.Load()
	if summary == nil {
		l.summary, l.counted = nil, nil
		l.now.Store(nil)
		return false
	}
	l.summary = NewRoom(summary, l.summary)
	l.counted = listed(summary, l.clusterID)
	due := l.clock.Now().Add(-countedAfter)
	maps.DeleteFunc(l.unseen, func(pod types.UID, u *unseenPod) bool {
		return l.counts(pod) || !u.scheduled.IsZero() && u.scheduled.Before(due)
	})
	l.subtract()
	more := l.now.Load().Roomier(before)
	if more {
		l.roomier.Add(1)
	}
	return more
}

// subtract must be called with the lock held.
func (l *Ledger) subtract() {
	l.stale.Store(false)
	l.listQueues()
	if l.summary == nil {
		return
	}
	room := l.summary
	inOrder := func(a, b *unseenPod) int { return cmp.Compare(a.order, b.order) }
	for _, u := range slices.SortedFunc(maps.Values(l.unseen), inOrder) {
		if u.queue == "" {
			room = room.With(u.demand)
		}
	}
	l.now.Store(room)
}

// counts says whether the summary lists the pod. It must be called with the lock held.
func (l *Ledger) counts(pod types.UID) bool {
	_, ok := l.counted[prefix(pod)]
	return ok
}

func prefix(pod types.UID) string { return string(pod[:min(len(pod), uidPrefix)]) }

func listed(summary *v1alpha1.ClusterSummary, clusterID string) map[string]struct{} {
	pods := map[string]struct{}{}
	for i := range summary.Status.Sources {
		if source := &summary.Status.Sources[i]; source.ClusterID == clusterID {
			for _, pod := range source.Latest {
				pods[pod] = struct{}{}
			}
		}
	}
	return pods
}
