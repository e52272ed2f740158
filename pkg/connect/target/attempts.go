package target

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/pause"
)

const (
	// maxMisses is how many attempts to connect must have failed in a row when a target is lost. One that was connected
	// has deadAfter, too.
	maxMisses = 3
	// heardMisses takes its place for a target that was connected, and answers now and then.
	heardMisses = 9
)

// A target that cost too much is disconnected for firstPenalty. Each time, the pause doubles, up to lastPenalty.
const (
	firstPenalty = 5 * time.Minute
	lastPenalty  = 2 * time.Hour
)

// begin begins to connect by a want. The time without an answer goes on if the want leads to where the last one did. If
// it leads elsewhere, the target there was never connected.
func (l *loop) begin(w want) {
	if at := w.endpoint(); l.endpoint != at {
		l.wasConnected = l.wasConnected && l.endpoint == ""
		l.endpoint = at
		l.rest()
	}
	if l.lastFine.IsZero() {
		l.lastFine = l.options.Clock.Now()
	}
}

// rest notes that nobody asks the target for a time.
func (l *loop) rest() {
	l.silence.forget()
	l.lastFine = time.Time{}
}

// patience is how many attempts to connect must have failed in a row when a target is lost. One that was connected, and
// answers now and then, is not dead.
func (l *loop) patience() int {
	if l.wasConnected && l.heard() {
		return heardMisses
	}
	return maxMisses
}

// isLost says whether attempts to connect that have failed show that the target is lost. One that was connected gets at
// least as long as a leader that watches it would give it: its API server may restart while a leader begins.
func (l *loop) isLost() bool {
	now := l.options.Clock.Now()
	return l.silence.dead(now) || l.doubts >= l.patience() && (!l.wasConnected || now.Sub(l.lastFine) >= deadAfter)
}

// nextPause steps the back-off, and returns the pause before the next attempt to connect. One attempt begins when the
// target has been silent, or not been fine, for deadAfter.
func (l *loop) nextPause(backoff *wait.Backoff) time.Duration {
	now := l.options.Clock.Now()
	step := l.silence.pause(backoff.Step(), now)
	if left := deadAfter - now.Sub(l.lastFine); l.wasConnected && left > 0 {
		return min(step, left)
	}
	return step
}

// punish disconnects a target that costs too much for a while, which doubles each time.
func (l *loop) punish(ctx context.Context, w want, over error) {
	if ctx.Err() != nil {
		return // The want changed.
	}
	l.disengage()
	l.penalty = min(max(2*l.penalty, firstPenalty), lastPenalty)
	l.report(ctx, w, finding{condition: overBudget(over, w, l.penalty)})
	pause.For(ctx, l.options.Clock, l.penalty)
	l.rest()
}

func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}
}
