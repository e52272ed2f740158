package objects

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
)

// linger is how long a collection is watched that nobody refers to: a Job that makes one pod after the other is not to
// cost a list for each.
const unusedFor = 5 * time.Minute

// watches are those of the collections that proxies refer to.
type watches struct {
	client  metadata.Interface
	clock   clock.WithDelayedExecution
	users   *users
	changed func(o objectKey, appeared bool)
	trouble func(c collection, err error)

	mu       sync.Mutex // guards all and leaving
	all      map[collection]*collectionWatch
	stopping map[collection]bool // has a timer
}

// ensure starts the watch of a collection, which ends with life, unless there is one.
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

// get returns nil where there is no watch.
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

// version is that of an object which exists, as far as is known, and goes to targets.
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

// leave stops the watch of a collection if nobody refers to it a while later.
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
