package responsive

import (
	"testing"
	"time"
)

var start = time.Unix(1_000_000, 0)

// answered notes answers, one every pause, and returns the time after them.
func answered(j *Observer, now time.Time, pause time.Duration, all ...Answer) time.Time {
	for _, answer := range all {
		j.Note(answer, now)
		now = now.Add(pause)
	}
	return now
}

// many returns so many answers, which alternate.
func many(n int, alternate ...Answer) []Answer {
	var all []Answer
	for i := range n {
		all = append(all, alternate[i%len(alternate)])
	}
	return all
}

func TestWhatCountsAsUnresponsive(t *testing.T) {
	for name, test := range map[string]struct {
		pause   time.Duration
		answers []Answer
		state   State
		reason  Answer
	}{
		"nothing":                       {0, nil, Unknown, Good},
		"the first answer":              {0, many(1, Good), Unknown, Good},
		"good answers":                  {5 * time.Second, many(12, Good), Responsive, Good},
		"one slow answer":               {5 * time.Second, append(many(6, Good), Slow), Responsive, Good},
		"three bad ones in a minute":    {5 * time.Second, many(12, Failed, Good, Good, Good), Responsive, Good},
		"every second is throttled":     {5 * time.Second, many(12, Throttled, Good), Unresponsive, Throttled},
		"every third fails":             {2 * time.Second, many(30, Good, Failed, Good), Unresponsive, Failed},
		"every answer takes 8 s":        {8 * time.Second, many(4, Slow), Unresponsive, Slow},
		"every tenth fails":             {time.Second, many(60, append(many(9, Good), Failed)...), Responsive, Good},
		"a hundred fail in one second":  {10 * time.Millisecond, append(many(100, Failed), Good), Unknown, Good},
		"exactly a third fails":         {length/share + 1, many(36, Good, Failed, Good), Unresponsive, Failed},
		"as many slow as throttled":     {time.Second, many(60, Slow, Throttled), Unresponsive, Slow},
		"good answers for 20 s":         {firstRecovery, many(2, Good), Responsive, Good},
		"good answers for almost 20 s":  {firstRecovery - 1, many(2, Good), Unknown, Good},
		"mostly failures, some slow":    {2 * time.Second, many(20, Failed, Slow, Failed), Unresponsive, Failed},
		"too few bad spans, but no end": {20 * time.Second, many(60, Failed), Unknown, Good},
	} {
		t.Run(name, func(t *testing.T) {
			j := &Observer{}
			now := answered(j, start, test.pause, test.answers...).Add(-test.pause)
			if got := j.Decision(now); got.State != test.state || got.Reason != test.reason {
				t.Errorf("got %+v, want state %d for answer %d", got, test.state, test.reason)
			}
		})
	}
}

// recovery returns how long a target that has been bad answers well before it is responsive, and the time then.
func recovery(t *testing.T, j *Observer, now time.Time) (time.Duration, time.Time) {
	t.Helper()
	now = answered(j, now, 5*time.Second, many(12, Failed)...)
	if j.Decision(now).State != Unresponsive {
		t.Fatal("it is not unresponsive")
	}
	good := now
	for ; j.Decision(now).State == Unresponsive; now = now.Add(time.Second) {
		j.Note(Good, now)
		if now.Sub(good) > time.Hour {
			t.Fatal("it does not recover")
		}
	}
	return now.Sub(good), now
}

func TestARecoveryTakesLongerAfterEachRelapse(t *testing.T) {
	j, now := &Observer{}, start
	for i, want := range []time.Duration{20, 40, 60, 60, 60, 60} {
		var took time.Duration
		took, now = recovery(t, j, now)
		if want *= time.Second; took < want-length || took > want+length {
			t.Errorf("recovery %d took %s, want %s", i, took, want)
		}
	}
	now = answered(j, now, 5*time.Second, many(130, Good)...)
	if took, _ := recovery(t, j, now); took > firstRecovery+length {
		t.Errorf("after a long good time it took %s", took)
	}
}

func TestATargetThatSaysNothingDoesNotRecover(t *testing.T) {
	j := &Observer{}
	now := answered(j, start, 5*time.Second, many(12, Failed)...).Add(time.Hour)
	if j.Decision(now).State != Unresponsive {
		t.Error("silence counts as recovery")
	}
	j.Note(Good, now)
	if j.Decision(now).State != Responsive {
		t.Error("an answer does not count, long after the last bad one")
	}
}

// Spans begin with the first answer, and not with the minute, so they are measured on the monotonic clock.
func TestARecoveryEndsToTheMoment(t *testing.T) {
	j := &Observer{}
	bad := answered(j, start.Add(3*time.Second), length, many(window, Failed)...)
	end := answered(j, bad, length, many(int(firstRecovery/length), Good)...)
	if j.Decision(end.Add(-1)).State != Unresponsive {
		t.Error("it is responsive too early")
	}
	if j.Decision(end).State != Responsive {
		t.Error("it is unresponsive for too long")
	}
	if again := j.Decision(end); again.State != Responsive {
		t.Errorf("what was before the recovery counts after it: %+v", again)
	}
}

func TestARelapseCountsForTenMinutes(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{memory - 1: 2 * firstRecovery, memory: firstRecovery} {
		j := &Observer{}
		_, now := recovery(t, j, start)
		relapse := j.Decision(now).Since.Add(after)
		answered(j, relapse.Add(-tolerable*length), length, many(tolerable+1, Failed)...)
		if got := j.Decision(relapse); got.State != Unresponsive || got.Recovery != want {
			t.Errorf("after %s: %+v, want a recovery of %s", after, got, want)
		}
	}
}

func TestABadAnswerDuringRecoveryProlongsIt(t *testing.T) {
	j := &Observer{}
	now := answered(j, start, 5*time.Second, many(12, Slow)...)
	now = answered(j, now, 5*time.Second, Good, Good, Good, Slow, Good, Good, Good)
	if j.Decision(now).State != Unresponsive {
		t.Error("it is responsive 15 s after a slow answer")
	}
	now = answered(j, now, 5*time.Second, Good, Good)
	if j.Decision(now).State != Responsive {
		t.Error("it is unresponsive for ever")
	}
}

func TestAnAnswerOfBeforeTheFirstOneCounts(t *testing.T) {
	j := &Observer{}
	j.Note(Good, start)
	j.Note(Failed, start.Add(-time.Minute))
	if !j.Wary(start) {
		t.Error("it was lost")
	}
}

func TestWhoeverWaitsIsWaryForAMinuteAfterABadAnswer(t *testing.T) {
	j := &Observer{}
	if j.Wary(start) || j.Heard(start) {
		t.Error("something was seen at the beginning")
	}
	j.Note(Failed, start)
	if !j.Wary(start) || j.Heard(start) {
		t.Errorf("wary %t, heard %t", j.Wary(start), j.Heard(start))
	}
	if j.Slow(start) {
		t.Error("a failure counts as a slow answer")
	}
	j.Note(Slow, start)
	if !j.Heard(start) || !j.Slow(start) {
		t.Error("a slow answer is no answer, or not slow")
	}
	later := start.Add(window * length)
	if early := later.Add(-1); !j.Wary(early) {
		t.Error("a failure counts for less than a minute")
	}
	if j.Wary(later) || j.Heard(later) || j.Slow(later) {
		t.Error("what was long ago counts")
	}
	now := answered(j, later, 5*time.Second, many(12, Failed)...).Add(time.Hour)
	if !j.Wary(now) {
		t.Error("it is unresponsive, and nobody is wary")
	}
}

func TestATargetThatIsLostAgainAndAgainIsSteadyLate(t *testing.T) {
	j := &Observer{}
	back := start
	for i, want := range []time.Duration{0, 15, 30, 60, 60, 60, 60, 60, 60, 60} {
		j.Lost(back)
		back = back.Add(time.Minute)
		if got := j.SteadyAt(back).Sub(back); got != want*time.Second {
			t.Errorf("after loss %d it settles within %s, want %d s", i+1, got, want)
		}
	}
	j = &Observer{}
	j.Lost(start)
	j.Lost(start.Add(1))
	if later := start.Add(memory); !j.SteadyAt(later).Equal(later) {
		t.Error("a loss ten minutes ago counts")
	} else if early := later.Add(-1); j.SteadyAt(early).Equal(early) {
		t.Error("a loss less than ten minutes ago does not count")
	}
}

func TestLossesOfLongAgoDoNotCount(t *testing.T) {
	j, back := &Observer{}, start
	for range 10 {
		j.Lost(back)
		back = back.Add(time.Minute)
	}
	if later := back.Add(memory); !j.SteadyAt(later).Equal(later) {
		t.Error("losses of long ago count")
	}
}
