package timeouts

import "testing"

func TestACopyOutlivesTheTimeUntilItsPodChaperonExists(t *testing.T) {
	// A copy that is not touched because another pod touched it just before must still be there when the PodChaperon is
	// created: after all other needs, and one request.
	if longest := TouchedFor + EnsureNeeds + Request; longest >= UnusedCopies {
		t.Errorf("a copy is deleted after %s, but may have to wait %s for its PodChaperon", UnusedCopies, longest)
	}
}

func TestClaimsHaveTimeAfterObjects(t *testing.T) {
	if left := EnsureNeeds - EnsureObjects; left <= Request {
		t.Errorf("after the objects, claims have %s, and one request may take %s", left, Request)
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
