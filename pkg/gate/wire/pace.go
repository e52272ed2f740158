package wire

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

const (
	// A watch that failed is begun again after firstPause, which doubles up to lastPause. client-go's own pauses come
	// before. It makes none after the status 410.
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
	// failing is how many times in a row a watch fails before it counts. stale is how long it counts: whoever watched
	// may have ended.
	failing = 3
	stale   = 2 * lastPause
)

// pace begins watches that fail at a low rate. It is safe for concurrent use.
type pace struct {
	clock clock.Clock

	mu       sync.Mutex // guards failures
	failures map[string]failure
}

// failure is the last failure of a watch, and its number in a row.
type failure struct {
	at     time.Time
	number int
	pause  time.Duration
}

func newPace(clock clock.Clock) *pace { return &pace{clock: clock, failures: map[string]failure{}} }

// wait waits until a watch may begin.
func (p *pace) wait(ctx context.Context, watch string) error {
	p.mu.Lock()
	last := p.failures[watch]
	p.mu.Unlock()
	left := last.pause - p.clock.Since(last.at)
	if left <= 0 {
		return nil
	}
	timer := p.clock.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note notes how a watch has begun. The status is 0 if there was no answer. Refusals are left to those who watch.
func (p *pace) note(watch string, status int) {
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, f := range p.failures {
		if now.Sub(f.at) > stale {
			delete(p.failures, name)
		}
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return
	}
	if status >= http.StatusOK && status < http.StatusBadRequest {
		delete(p.failures, watch)
		return
	}
	number := p.failures[watch].number + 1
	pause := min(firstPause<<min(number-1, 10), lastPause)
	p.failures[watch] = failure{at: now, number: number, pause: wait.Jitter(pause, 0.5)}
}

// fails says whether a watch fails again and again.
func (p *pace) fails() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.failures {
		if f.number >= failing && p.clock.Since(f.at) <= stale {
			return true
		}
	}
	return false
}
