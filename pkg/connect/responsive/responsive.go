package responsive

import (
	"sync"
	"time"
)

// Answer is how a target answered a request.
type Answer int

const (
	// Good answers are on time. Refusals for lack of rights, say, are good ones.
	Good Answer = iota
	// Slow answers took longer than SlowAfter.
	Slow
	// Throttled requests were too many for the target.
	Throttled
	// Failed requests were answered with an error of the server, or not at all.
	Failed

	answers
)

const (
	// SlowAfter is how long an answer may take.
	SlowAfter = 3 * time.Second

	// length is that of a span, and window is how many spans count.
	length = 5 * time.Second
	window = 12
	// tolerable is how many spans of the window may be bad. A span is bad if at least one in share answers was bad.
	tolerable = 3
	share     = 3

	// A target must answer well for firstRecovery before it is responsive. This doubles with each relapse, up to
	// lastRecovery.
	firstRecovery = 20 * time.Second
	lastRecovery  = time.Minute
	// memory is how long relapses and losses count.
	memory = 10 * time.Minute

	// A target that was lost twice within memory must answer for firstSteady before it is connected again. This
	// doubles with each loss, up to lastSteady.
	firstSteady = 15 * time.Second
	lastSteady  = time.Minute
	// lossesKept are enough to reach lastSteady.
	lossesKept = 8
)

// State is what is known about a target.
type State int

const (
	// Unknown means that too little was seen.
	Unknown State = iota
	// Responsive means that the target answers well.
	Responsive
	// Unresponsive means that the target is slow, throttles or fails.
	Unresponsive
)

// Decision is the judgement about a target.
type Decision struct {
	State State
	// Since is when the state began. Reason is the most frequent bad answer of that time, if it is Unresponsive.
	Since  time.Time
	Reason Answer
	// Recovery is how long a target that is Unresponsive must answer well.
	Recovery time.Duration
}

// Observer judges one target. The zero value has seen nothing. It is safe for concurrent use.
type Observer struct {
	mu       sync.Mutex // guards the fields below
	spans    [window]span
	decision Decision
	// first is when the first answer was noted, and lastBad the end of the last span that was bad. Spans are numbered
	// from first on, so that all is measured on the monotonic clock: somebody may set the other one.
	first, lastBad time.Time
	recovered      time.Time
	relapses       int
	losses         []time.Time
}

// span counts the answers of a time.
type span struct {
	number int64
	counts [answers]int
}

func (s *span) all() int { return s.counts[Good] + s.bad() }

func (s *span) bad() int { return s.counts[Slow] + s.counts[Throttled] + s.counts[Failed] }

func (s *span) isBad() bool { return s.bad() > 0 && s.bad()*share >= s.all() }

// number returns that of the span at a time. It is called under mu. Whoever waited for mu may have an earlier time.
func (j *Observer) number(now time.Time) int64 { return max(0, int64(now.Sub(j.first)/length)) }

// end returns that of a span. It is called under mu.
func (j *Observer) end(s *span) time.Time { return j.first.Add(time.Duration(s.number+1) * length) }

// Note notes an answer that arrived, or failed to arrive, at a time.
func (j *Observer) Note(answer Answer, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.first.IsZero() {
		j.first = now
	}
	number := j.number(now)
	s := &j.spans[number%window]
	if s.number != number {
		*s = span{number: number}
	}
	s.counts[answer]++
	j.decide(now)
}

// Decision returns the judgement as of a time.
func (j *Observer) Decision(now time.Time) Decision {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decide(now)
	return j.decision
}

// Wary says whether the target may be in trouble: whoever waits for an answer should be patient.
func (j *Observer) Wary(now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	seen := j.look(now)
	return seen.bad > 0 || j.decision.State == Unresponsive
}

// Slow says whether the target took long for an answer of late.
func (j *Observer) Slow(now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	seen := j.look(now)
	return seen.counts[Slow] > 0
}

// Heard says whether the target has answered of late, however slowly.
func (j *Observer) Heard(now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	seen := j.look(now)
	return seen.counts[Good]+seen.counts[Slow] > 0
}

// sight sums up the window.
type sight struct {
	bad     int // spans
	relapse int // the bad spans since the last recovery
	counts  [answers]int
	newest  time.Time // the end of the last span with an answer
}

// look is called under mu.
func (j *Observer) look(now time.Time) sight {
	var seen sight
	oldest := j.number(now) - window
	for i := range j.spans {
		s := &j.spans[i]
		if s.number <= oldest || s.all() == 0 {
			continue
		}
		for answer, n := range s.counts {
			seen.counts[answer] += n
		}
		end := j.end(s)
		if end.After(seen.newest) {
			seen.newest = end
		}
		if s.isBad() {
			seen.bad++
			if end.After(j.recovered) {
				seen.relapse++
			}
			if end.After(j.lastBad) {
				j.lastBad = end
			}
		}
	}
	return seen
}

// decide is called under mu.
func (j *Observer) decide(now time.Time) {
	seen := j.look(now)
	switch j.decision.State {
	case Unresponsive:
		recovery := j.decision.Recovery
		if now.Sub(j.lastBad) >= recovery && seen.newest.After(j.lastBad.Add(length)) {
			j.decision = Decision{State: Responsive, Since: now}
			j.recovered = now
		}
	case Unknown, Responsive:
		if seen.relapse > tolerable {
			j.condemn(seen, now)
		} else if j.decision.State == Unknown && seen.counts[Good] > 0 && now.Sub(j.first) >= firstRecovery {
			j.decision = Decision{State: Responsive, Since: now}
		}
	}
}

func (j *Observer) condemn(seen sight, now time.Time) {
	if !j.recovered.IsZero() && now.Sub(j.recovered) < memory {
		j.relapses++
	} else {
		j.relapses = 0
	}
	j.decision = Decision{
		State: Unresponsive, Since: now, Reason: Slow, Recovery: doubled(firstRecovery, j.relapses, lastRecovery),
	}
	for _, answer := range []Answer{Throttled, Failed} {
		if seen.counts[answer] > seen.counts[j.decision.Reason] {
			j.decision.Reason = answer
		}
	}
}

// doubled returns d, doubled so many times, up to most.
func doubled(d time.Duration, times int, most time.Duration) time.Duration {
	for range times {
		if d *= 2; d >= most {
			return most
		}
	}
	return d
}

// Lost notes that the target was lost: that it did not answer for so long that its node is not Ready.
func (j *Observer) Lost(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.losses = append(j.losses, now)
	j.losses = j.losses[max(0, len(j.losses)-lossesKept):]
}

// SteadyAt returns when a target that answers again since a time counts as connected. After a first loss it does at
// once. If losses recur, it must have gone on answering, so that its node is not Ready and NotReady by turns.
func (j *Observer) SteadyAt(back time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	recent := 0
	for _, lost := range j.losses {
		if back.Sub(lost) < memory {
			recent++
		}
	}
	if recent < 2 {
		return back
	}
	return back.Add(doubled(firstSteady, recent-2, lastSteady))
}
