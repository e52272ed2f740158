package env

import (
	"time"

	"k8s.io/utils/clock"
)

// Fast is a clock that goes faster than the wall's.
type Fast struct {
	clock.RealClock
	start time.Time
	speed time.Duration
}

// FastClock returns a clock that goes speed times as fast as the wall's from now on.
func FastClock(speed int) Fast { return Fast{start: time.Now(), speed: time.Duration(speed)} }

// Now returns the time of this clock.
func (f Fast) Now() time.Time { return f.start.Add(time.Since(f.start) * f.speed) }

// Since returns how much time of this clock has passed since t.
func (f Fast) Since(t time.Time) time.Duration { return f.Now().Sub(t) }

// After sends once d has passed on this clock.
func (f Fast) After(d time.Duration) <-chan time.Time { return f.RealClock.After(d / f.speed) }

// NewTimer returns a timer that fires once d has passed on this clock.
func (f Fast) NewTimer(d time.Duration) clock.Timer { return f.RealClock.NewTimer(d / f.speed) }

// NewTicker returns a ticker that ticks whenever d has passed on this clock.
func (f Fast) NewTicker(d time.Duration) clock.Ticker { return f.RealClock.NewTicker(d / f.speed) }

// AfterFunc calls do once d has passed on this clock.
func (f Fast) AfterFunc(d time.Duration, do func()) clock.Timer {
	return f.RealClock.AfterFunc(d/f.speed, do)
}
