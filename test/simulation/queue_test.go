package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// queue is a work queue whose workers take a key when the simulation says so.
type queue struct {
	name       string
	process    *process
	reconciler reconcile.Reconciler
	target     *engage.Target  // nil if the workers are not those of a target
	ctx        context.Context //nolint:containedctx // The workers end with it.

	mu      sync.Mutex // guards the fields below
	ready   []reconcile.Request
	since   map[reconcile.Request]time.Time // when they became ready
	delayed map[reconcile.Request]time.Time
	working map[reconcile.Request]bool
	// again has the keys that were added while a worker had them.
	again  map[reconcile.Request]bool
	failed map[reconcile.Request]int
}

func newQueue(p *process, name string, reconciler reconcile.Reconciler) *queue {
	q := &queue{
		name: name, process: p, ctx: p.ctx, reconciler: reconciler, delayed: map[reconcile.Request]time.Time{},
		since:   map[reconcile.Request]time.Time{},
		working: map[reconcile.Request]bool{}, again: map[reconcile.Request]bool{}, failed: map[reconcile.Request]int{},
	}
	p.queues = append(p.queues, q)
	return q
}

// forLost is the key of contexts of workers that began to work for a target after it was lost.
type forLost struct{}

// Add adds a key.
func (q *queue) Add(key reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(key)
}

func (q *queue) add(key reconcile.Request) {
	switch {
	case q.working[key]:
		q.again[key] = true
	case !slices.Contains(q.ready, key):
		q.ready = append(q.ready, key)
		q.since[key] = time.Now()
		slices.SortFunc(q.ready, func(a, b reconcile.Request) int { return compareNames(a.String(), b.String()) })
	}
}

// AddAfter adds a key when time has passed. An earlier time that is planned counts.
func (q *queue) AddAfter(key reconcile.Request, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	due := time.Now().Add(d)
	if planned, ok := q.delayed[key]; !ok || due.Before(planned) {
		q.delayed[key] = due
	}
}

// due makes those keys ready whose time has come.
func (q *queue) due() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, at := range q.delayed {
		if !at.After(time.Now()) {
			delete(q.delayed, key)
			q.add(key)
		}
	}
}

// lag is how long the workers have not taken a key.
func (q *queue) lag() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	var lag time.Duration
	for _, key := range q.ready {
		lag = max(lag, time.Since(q.since[key]))
	}
	return lag
}

// keys returns those that are ready.
func (q *queue) keys() []reconcile.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.ready)
}

// work starts a worker with a key that is ready.
func (q *queue) work(key reconcile.Request) {
	q.mu.Lock()
	q.ready = slices.DeleteFunc(q.ready, func(k reconcile.Request) bool { return k == key })
	q.working[key] = true
	q.mu.Unlock()
	q.process.world.start(q.name, func() { q.done(q.ctx, key) })
}

func (q *queue) done(ctx context.Context, key reconcile.Request) {
	ctx, cancel := context.WithTimeout(ctx, timeouts.ReconcileChaperon)
	defer cancel()
	if q.target != nil && !q.target.Reachable() {
		ctx = context.WithValue(ctx, forLost{}, true)
	}
	result, err := q.reconciler.Reconcile(ctx, key)
	q.mu.Lock()
	delete(q.working, key)
	again := q.again[key]
	delete(q.again, key)
	if again {
		q.add(key)
	}
	failures := q.failed[key]
	if err != nil {
		q.failed[key]++
	} else {
		delete(q.failed, key)
	}
	q.mu.Unlock()
	switch {
	case err != nil:
		q.AddAfter(key, min(5*time.Millisecond<<min(failures, 20), 30*time.Second))
	case result.RequeueAfter > 0:
		q.AddAfter(key, result.RequeueAfter)
	}
}

// The rest of the interface is not used.

func (q *queue) AddRateLimited(key reconcile.Request) { q.Add(key) }
func (q *queue) Forget(reconcile.Request)             {}
func (q *queue) NumRequeues(reconcile.Request) int    { return 0 }
func (q *queue) Len() int                             { return len(q.ready) }
func (q *queue) Get() (reconcile.Request, bool) {
	panic(fmt.Sprintf("%s: workers take keys by themselves", q.name))
}
func (q *queue) Done(reconcile.Request) {}
func (q *queue) ShutDown()              {}
func (q *queue) ShutDownWithDrain()     {}
func (q *queue) ShuttingDown() bool     { return false }
