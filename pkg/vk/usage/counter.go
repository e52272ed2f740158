package usage

import "time"

const (
	// base is what each counter, in seconds, begins with: metrics-server ignores pods with a counter of zero.
	base = 0.001
	// unknown is the time that a first sample counts for if it does not cover the start of the container.
	unknown = time.Second
	// stale is the age at which a sample is not reported any more. A target has a new one every minute at least.
	stale = 3 * time.Minute
)

// sample is the usage of a container, as the target reported it.
type sample struct {
	at     time.Time     // by the target's clock
	window time.Duration // of the rate
	cores  float64
	memory uint64
}

// counter integrates the samples of a container.
type counter struct {
	started time.Time // the container, by the target's clock
	last    sample
	begun   time.Time // by our clock, as the time below
	seen    time.Time
	seconds float64
}

// add returns the counter after a sample. It may be nil before.
func (c *counter) add(s sample, started, now time.Time) *counter {
	if c == nil || !c.started.Equal(started) {
		return newCounter(s, started, now)
	}
	if s.at.Equal(c.last.at) {
		return c
	}
	next := *c
	next.seconds += s.cores * now.Sub(c.seen).Seconds()
	next.last, next.seen = s, now
	return &next
}

// newCounter returns nil for a sample from before the container started.
func newCounter(s sample, started, now time.Time) *counter {
	covered := s.at.Sub(started)
	switch {
	case covered <= 0:
		return nil
	case covered > s.window:
		covered = unknown
	}
	return &counter{
		started: started, last: s, begun: now.Add(-covered), seen: now,
		seconds: base + s.cores*covered.Seconds(),
	}
}

func (c *counter) fresh(now time.Time) bool { return c != nil && now.Sub(c.seen) < stale }
