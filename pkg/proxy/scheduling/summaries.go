package scheduling

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// summaryInterval is the least time between two summaries of one target that are handled. A target's manager publishes
// no more often. Each one may wake all pods that wait, of all targets.
const summaryInterval = 500 * time.Millisecond

// summaries hands the summaries of one target on, one at a time and no more often than summaryInterval. Of those that
// come in between, it hands on the last one.
type summaries struct {
	clock  clock.WithDelayedExecution
	handle func(*v1alpha1.ClusterSummary)

	mu      sync.Mutex // guards the fields below
	newest  *v1alpha1.ClusterSummary
	waiting bool // newest is to be handled
	resting bool // one was handled less than an interval ago, or is being handled
}

// seen notes a summary, or nil if it is gone.
func (s *summaries) seen(summary *v1alpha1.ClusterSummary) {
	if s.begin(summary) {
		s.handleAndRest(summary)
	}
}

// begin says whether a summary is to be handled at once. Otherwise it is kept for later.
func (s *summaries) begin(summary *v1alpha1.ClusterSummary) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resting {
		s.newest, s.waiting = summary, true
		return false
	}
	s.resting = true
	return true
}

func (s *summaries) handleAndRest(summary *v1alpha1.ClusterSummary) {
	s.handle(summary)
	s.clock.AfterFunc(summaryInterval, func() {
		if next, waiting := s.next(); waiting {
			s.handleAndRest(next)
		}
	})
}

// next returns what has come in the meantime.
func (s *summaries) next() (summary *v1alpha1.ClusterSummary, waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	summary, waiting = s.newest, s.waiting
	s.newest, s.waiting, s.resting = nil, false, waiting
	return summary, waiting
}
