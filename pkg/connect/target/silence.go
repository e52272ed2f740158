package target

import (
	"context"
	"sync"
	"time"
)

// deadAfter is how long a target may answer nothing at all while it is connected to. If it was connected before,
// attempts to connect may fail as long, whatever it answers. A request whose end shows this takes up to 10 s, and
// begins when this time has passed, or after a short pause. So the target is lost after 35 to 50 s, as an engaged one
// is. One that answers well now and then has longer.
const deadAfter = 35 * time.Second

// silence is for how long a target has not answered at all, while requests waited for an answer. The zero value has
// seen no request. It is safe for concurrent use.
type silence struct {
	mu     sync.Mutex // guards the fields below
	since  time.Time  // the last answer, or the beginning of the first request
	missed bool       // whether a request had no answer since
	end    func()     // ends the attempt to connect, or is nil
}

// note notes a request that was answered, or was not, after some time. It ends an attempt to connect to a target that
// is dead: attempts repeat their steps as long as the target answers now and then.
func (s *silence) note(answered bool, took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case answered:
		s.since = now
	case s.since.IsZero():
		s.since = now.Add(-took)
	}
	s.missed = !answered
	if s.end != nil && s.isDead(now) {
		s.end()
	}
}

// forget begins anew after a time in which nobody asked the target.
func (s *silence) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.missed = time.Time{}, false
}

// isDead says whether the target has been silent for long. It is called under mu.
func (s *silence) isDead(now time.Time) bool { return s.missed && now.Sub(s.since) >= deadAfter }

// dead says whether the target has been silent for long.
func (s *silence) dead(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isDead(now)
}

// pause shortens a pause between two attempts to connect, so that the next one begins when a silent target may be found
// dead.
func (s *silence) pause(d time.Duration, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := deadAfter - now.Sub(s.since); s.missed && left > 0 {
		return min(d, left)
	}
	return d
}

// bound returns a context for an attempt to connect, which ends when the target is found dead. If it was dead before,
// the attempt may take its time. over must be called when the attempt is over, and cancel when its results are.
func (s *silence) bound(ctx context.Context, now time.Time) (attempt context.Context, over, cancel func()) {
	attempt, cancel = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isDead(now) {
		s.end = cancel
	}
	return attempt, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end = nil
	}, cancel
}
