package scheduling

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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
)

const (
	// uidPrefix is how much of a UID ClusterSummaries list.
	uidPrefix = 8
	// countedAfter is how long after a delegate was seen scheduled a ClusterSummary is sure to count it. It matters only for those that
	// are not listed, because too many others were counted meanwhile.
	countedAfter = 10 * time.Second
)

// ledger knows the room of one target: what its ClusterSummary says, less what was placed there that it has not counted. It
// subtracts each pod exactly once, whatever the order in which the pod's delegate and the summary are seen.
type ledger struct {
	clusterID string
	clock     clock.PassiveClock
	now       atomic.Pointer[fit.Room]
	stale     atomic.Bool  // now is to be computed anew
	roomier   atomic.Int64 // how often a summary told of more room

	mu      sync.Mutex // guards what follows, and writing now and stale
	told    *fit.Room  // as the summary tells it; nil while there is none
	counted map[string]struct{}
	unseen  map[types.UID]*unseenPod
	placed  int // how many were ever placed
}

// unseenPod is one that was placed and that the summary has not counted.
type unseenPod struct {
	demand    *fit.Demand
	order     int
	scheduled time.Time // when its delegate was seen scheduled, or zero
}

func newLedger(clusterID string, c clock.PassiveClock) *ledger {
	return &ledger{clusterID: clusterID, clock: c, unseen: map[types.UID]*unseenPod{}}
}

// room is what is free now. It is nil while that is not known.
func (l *ledger) room() *fit.Room {
	if l.stale.Load() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.subtract()
	}
	return l.now.Load()
}

// place notes that a pod is given to the target.
func (l *ledger) place(pod types.UID, demand *fit.Demand) {
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

// scheduled notes that the pod's delegate is seen scheduled.
func (l *ledger) scheduled(pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if unseen, ok := l.unseen[pod]; ok && unseen.scheduled.IsZero() {
		unseen.scheduled = l.clock.Now()
	}
}

// remove notes that the target does not have the pod, and says whether that made room.
func (l *ledger) remove(pod types.UID) bool {
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

// tell takes what a new summary says, and says whether a pod may fit now that did not before. There is no summary if it is nil.
func (l *ledger) tell(summary *v1alpha1.ClusterSummary) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale.Load() {
		l.subtract()
	}
	before := l.now.Load()
	if summary == nil {
		l.told, l.counted = nil, nil
		l.now.Store(nil)
		return false
	}
	l.told = fit.NewRoom(summary, l.told)
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
func (l *ledger) subtract() {
	l.stale.Store(false)
	if l.told == nil {
		return
	}
	room := l.told
	for _, u := range slices.SortedFunc(maps.Values(l.unseen), func(a, b *unseenPod) int { return cmp.Compare(a.order, b.order) }) {
		room = room.With(u.demand)
	}
	l.now.Store(room)
}

// counts says whether the summary lists the pod. It must be called with the lock held.
func (l *ledger) counts(pod types.UID) bool {
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
