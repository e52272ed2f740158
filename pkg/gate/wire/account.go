package wire

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// Account counts the cost of one target. It is safe for concurrent use.
type Account struct {
	limits   Limits
	clock    clock.WithDelayedExecution
	bucket   *rate.Limiter
	exceeded chan struct{}
	ahead    atomic.Int64 // the Duration that Ahead returns

	mu         sync.Mutex // guards the fields below
	violations []time.Time
	violation  error
	overBudget error
	objects    int64
	bytes      int64
	pages      map[string]*pages
}

// pages are those of a list.
type pages struct {
	total total
	open  int       // the pages that are being read
	ended time.Time // when the last one ended
}

// NewAccount returns an account without costs.
func NewAccount(limits Limits, clock clock.WithDelayedExecution) *Account {
	return &Account{
		limits:   limits,
		clock:    clock,
		bucket:   rate.NewLimiter(rate.Limit(limits.Rate), limits.Burst),
		exceeded: make(chan struct{}),
		pages:    map[string]*pages{},
	}
}

// Violated notes that the target violated a bound. Several violations within minutes exceed the account.
func (a *Account) Violated(reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	a.violation = &OverBudgetError{Reason: reason}
	a.violations = append(a.violations, now)
	if len(a.violations) < a.limits.Violations {
		return
	}
	first := a.violations[len(a.violations)-a.limits.Violations]
	a.violations = a.violations[len(a.violations)-a.limits.Violations:]
	if now.Sub(first) < a.limits.ViolationsWithin {
		a.exceed(reason)
	}
}

// Keep adds objects that are kept, and their bytes. Negative numbers stand for objects that are not kept any more. A
// nil Account counts nothing.
func (a *Account) Keep(objects, bytes int64) {
	if a == nil {
		return
	}
	allowed := a.limits.Objects()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects += objects
	a.bytes += bytes
	switch {
	case a.objects > allowed:
		a.exceed(fmt.Sprintf("it has more than %d objects for this cluster", allowed))
	case a.bytes > a.limits.Kept:
		a.exceed(fmt.Sprintf("its objects for this cluster have more than %d MiB", a.limits.Kept>>20))
	}
}

// KeepAllOf keeps account of the objects in an informer's store. size returns the bytes of an object.
func (a *Account) KeepAllOf(informer cache.SharedInformer, size func(object any) int64) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { a.Keep(1, size(object)) },
		UpdateFunc: func(was, is any) { a.Keep(0, size(is)-size(was)) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			a.Keep(-1, -size(object))
		},
	})
	if err != nil {
		return fmt.Errorf("counting objects: %w", err)
	}
	return nil
}

// exceed is called under mu.
func (a *Account) exceed(reason string) {
	if a.overBudget == nil {
		a.overBudget = &OverBudgetError{Reason: reason}
		close(a.exceeded)
	}
}

// Exceeded returns a channel that is closed when the target has cost more than it may. Err then says why.
func (a *Account) Exceeded() <-chan struct{} { return a.exceeded }

// Err returns an *OverBudgetError once the account is exceeded, and nil before.
func (a *Account) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.overBudget
}

// Violation returns an *OverBudgetError about the last violation, or nil. While a target is being connected, a single
// violation is enough.
func (a *Account) Violation() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.overBudget != nil {
		return a.overBudget
	}
	return a.violation
}

// noteDate notes the time in an answer, and when the answer came.
func (a *Account) noteDate(date string, came time.Time) {
	if theirs, err := http.ParseTime(date); err == nil {
		a.ahead.Store(int64(theirs.Sub(came)))
	}
}

// Ahead returns by how much the target's clock is ahead of this cluster's, as of the last answer. It is negative for a
// clock that is behind, and inaccurate by the time that the answer took. A nil Account has no answer.
func (a *Account) Ahead() time.Duration {
	if a == nil {
		return 0
	}
	return time.Duration(a.ahead.Load())
}

// spend waits until the target may send n more bytes.
func (a *Account) spend(ctx context.Context, n int) error { return a.bucket.WaitN(ctx, n) }

// total returns the total of a list. The pages of a list share it: ended must be called when a page has ended. A list
// of which nobody asks for another page within Relist is forgotten.
func (a *Account) total(r request) (of *total, ended func()) {
	if !r.paged {
		return &total{}, func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	maps.DeleteFunc(a.pages, func(_ string, p *pages) bool {
		return p.open == 0 && now.Sub(p.ended) > a.limits.Relist
	})
	p, ok := a.pages[r.list]
	if !ok || !r.continued {
		p = &pages{}
		a.pages[r.list] = p
	}
	p.open++
	return &p.total, sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		p.open--
		p.ended = a.clock.Now()
	})
}
