package objects

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
)

// unusedFor is how long a collection is watched to which nobody refers, so that a Job that makes one pod after the
// other does not cost one list for each.
const unusedFor = 5 * time.Minute

// watches has the watches of the collections to which proxies refer.
type watches struct {
	client  metadata.Interface
	clock   clock.WithDelayedExecution
	users   *users
	changed func(o objectKey, appeared bool)
	trouble func(c collection, err error)

	mu       sync.Mutex // guards all and stopping
	all      map[collection]*collectionWatch
	stopping map[collection]bool // those with a timer
}

// ensure starts the watch of a collection, unless it runs. The watch ends with life.
func (s *watches) ensure(life context.Context, c collection) *collectionWatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.all[c]; ok {
		return w
	}
	w := newCollectionWatch(c, s.changed, func(err error) { s.trouble(c, err) })
	ctx, stop := context.WithCancel(life)
	w.stop = stop
	s.all[c] = w
	go w.Run(ctx, workersName, s.clock, metadataOf(c, s.client))
	return w
}

// watchOf returns the watch of a collection, or nil.
func (s *watches) watchOf(c collection) *collectionWatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[c]
}

// lacks says whether an object surely does not exist.
func (s *watches) lacks(o objectKey) bool {
	w := s.watchOf(o.collection())
	return w != nil && w.Lacks(o.Name)
}

// version returns the version of an object that exists, as far as is known, and goes to targets.
func (s *watches) version(o objectKey) (string, bool) {
	w := s.watchOf(o.collection())
	if w == nil {
		return "", false
	}
	if known := w.Entry(o.Name); known != nil {
		return known.version, known.followed
	}
	return "", false
}

// stopLater stops the watch of a collection after a while, if nobody refers to the collection then.
func (s *watches) stopLater(c collection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[c] == nil || s.stopping[c] {
		return
	}
	s.stopping[c] = true
	s.clock.AfterFunc(unusedFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.stopping, c)
		if s.users.isReferredTo(c) {
			return
		}
		s.all[c].stop()
		delete(s.all, c)
	})
}
