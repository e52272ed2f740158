package timeouts

import (
	"testing"
	"time"
)

func TestACopyOutlivesTheTimeUntilItsPodChaperonExists(t *testing.T) {
	// A copy that is not touched because another pod touched it just before must still be there when the PodChaperon is
	// created: after all other needs, which end with EnsureNeeds however many requests they take, and one request.
	if longest := TouchedFor + EnsureNeeds + Request; longest >= UnusedCopies {
		t.Errorf("a copy is deleted after %s, but may have to wait %s for its PodChaperon", UnusedCopies, longest)
	}
}

func TestClaimsHaveTimeAfterObjects(t *testing.T) {
	// A claim takes up to seven requests, one after the other: reading it in the source, in the target, and in the
	// target that may keep its copy, annotating it, asking for our user name, creating the copy, and, if the target
	// refuses the copy, removing the annotation. Not all of them can take their whole deadline in one attempt. After
	// objects that took all their time, one request can, or each may be slow.
	const requests, slow = 7, 2 * time.Second
	if left := EnsureNeeds - EnsureObjects; left <= Request || left < requests*slow {
		t.Errorf("after the objects, a claim has %s for up to %d requests", left, requests)
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
