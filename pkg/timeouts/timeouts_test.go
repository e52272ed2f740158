package timeouts

import (
	"testing"
	"time"
)

func TestACopyOutlivesTheTimeUntilItsPodChaperonExists(t *testing.T) {
	// A copy that another pod touched just before is not touched again. It must still be there when the PodChaperon is
	// created. That is after all other needs, which end with EnsureNeeds however many requests they take, and a turn.
	// Then comes one request. The target may carry it out up to HoldDuration after it was given up.
	if longest := TouchedFor + EnsureNeeds + CreationTurn + Request + HoldDuration; longest >= UnusedCopies {
		t.Errorf("a copy is deleted after %s, but may have to wait %s for its PodChaperon", UnusedCopies, longest)
	}
}

func TestClaimsHaveTimeAfterObjects(t *testing.T) {
	// A claim takes up to eight requests, one after the other. Three read it: in the source, in the target, and in the
	// target that may keep its copy, which also confirms that it lacks the copy. If nobody knows which target this is,
	// all are asked at the same time. The others annotate it, ask for our
	// user name, and create the copy. If the target refuses the copy, the last one removes the annotation. Not all of
	// them can take their whole deadline in one attempt. After objects that took all their time, one request can, or
	// each may be slow.
	const requests, slow = 8, 2 * time.Second
	if left := EnsureNeeds - EnsureObjects; left <= Request || left < requests*slow {
		t.Errorf("after the objects, a claim has %s for up to %d requests", left, requests)
	}
}

func TestNoDelegateIsCreatedWhenItsPodChaperonIsDeleted(t *testing.T) {
	// The target's manager may not have seen the request. Of a fresh PodChaperon, it asks nobody. An older one it reads
	// at the beginning of its time.
	if longest := FreshChaperon + ReconcileChaperon; longest >= ManagerPatience {
		t.Errorf("a delegate is created up to %s after the end was asked for, and the source waits for %s",
			longest, ManagerPatience)
	}
}

func TestALeaderEndsBeforeTheNextOneBegins(t *testing.T) {
	if LeaseEndsProcess >= LeaseDuration {
		t.Errorf("a leader ends after %s, the next one may begin after %s", LeaseEndsProcess, LeaseDuration)
	}
	if LeaseRenewal >= LeaseEndsProcess {
		t.Errorf("a leader gives up after %s, but its process ends before, after %s", LeaseRenewal, LeaseEndsProcess)
	}
}

func TestASourceEndsBeforeAnotherOneBegins(t *testing.T) {
	// A request that was begun while the Lease was held is cancelled at the end, and so has no effect later.
	if HoldEnds >= HoldDuration {
		t.Errorf("a source ends its work after %s, another may begin after %s", HoldEnds, HoldDuration)
	}
	if HoldEndsWary-HoldDurationWary != HoldEnds-HoldDuration {
		t.Errorf("in a slow target, a source ends its work after %s, another may begin after %s",
			HoldEndsWary, HoldDurationWary)
	}
	if 3*Request >= HoldEndsWary {
		t.Errorf("two renewals that take %s each do not fit in %s, after one that failed", Request, HoldEndsWary)
	}
	if 2*HoldRenewal >= HoldEnds {
		t.Errorf("a source renews every %s: one lost renewal ends its work, after %s", HoldRenewal, HoldEnds)
	}
	if HoldDuration > LeaseDuration {
		t.Errorf("a take-over takes %s, longer than the election of the leader, %s", HoldDuration, LeaseDuration)
	}
}

func TestSilenceIsNoticedInTimeAndNotTooEarly(t *testing.T) {
	// The last renewal is seen at the next look. Later looks are PresenceDoubt apart.
	if longest := Health + SilentAfter + PresenceDoubt; longest-SilentWithin >= PresenceDoubt {
		t.Errorf("silence is noticed after up to %s", longest)
	}
	// Of the renewals of an awake manager, one may fail, and looks are up to Health apart.
	if longest := PresenceRenewal + PresenceRetry + Health; longest >= SilentAfter {
		t.Errorf("a manager that renews is taken for silent after %s, but renewals may seem to be %s apart",
			SilentAfter, longest)
	}
}

func TestAFencedDelegateEndsInTime(t *testing.T) {
	// A source sends renewals until its hold ends, and the last one may arrive, although it was not answered. The
	// target's manager measures silence whenever it sees a renewal of its own.
	if latest := HoldEnds + FenceBlind + FenceReaction; latest > FenceSlack {
		t.Errorf("a fenced delegate may end %s later than fence and grace period, more than %s", latest, FenceSlack)
	}
	// The manager sees while one of its renewals fails.
	if longest := PresenceRenewal + PresenceRetry + PresenceRenewal; longest >= FenceBlind {
		t.Errorf("renewals may seem to be %s apart, and %s counts as blind", longest, FenceBlind)
	}
	// The next leader is elected, starts, and renews for the first time.
	if took := LeaseDuration + LeaseRetry + FenceBlind; took > FenceRestart {
		t.Errorf("a change of leader takes %s, more than %s", took, FenceRestart)
	}
}

func TestASourceThatComesBackSoonIsNotFenced(t *testing.T) {
	// After a crash, the next leader takes the Lease at the end of its duration. The last renewal may be one interval
	// old at the crash.
	if silent := HoldRenewal + HoldDuration + LeaseRetry; silent >= FenceLeast {
		t.Errorf("after a crash, the source is silent for %s, and fenced after %s", silent, FenceLeast)
	}
	// A source that lost the target looks for it again every 36 s at least, and asks it for some things first.
	if silent := 36*time.Second + 2*Request; silent >= FenceLeast {
		t.Errorf("after a short loss, the source is silent for %s, and fenced after %s", silent, FenceLeast)
	}
}

func TestTheDefaultTolerationIsEnoughForTheLeastFence(t *testing.T) {
	const toleration, grace = 300 * time.Second, 30 * time.Second
	if holds := FenceHolds(FenceLeast, grace); holds > toleration {
		t.Errorf("a delegate that is fenced after %s ends after %s, and is replaced after %s",
			FenceLeast, holds, toleration)
	}
}
