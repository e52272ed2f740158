package chaperon

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// carriedOutWithin is how long the API server may still carry out a request to create a delegate after the request
// ended without an answer. Sources allow the same time for the whole request: see timeouts.ManagerPatience. The network
// delays it for less: see wire.HTTPClientFor.
const carriedOutWithin = timeouts.ReconcileChaperon

// unanswered remembers the requests to create delegates that ended without an answer. The API server may have carried
// them out, or may do so later. A new leader does not know those of the last one. So it takes it that there was one for
// each PodChaperon which is older than its term, and shows no delegate.
type unanswered struct {
	mu    sync.Mutex // guards the fields below
	byKey map[types.NamespacedName]doubt
	began time.Time // when this manager began to lead
}

type doubt struct {
	uid   types.UID // of the PodChaperon
	until time.Time // when the API server does not carry out the last request any more
}

func (u *unanswered) note(chaperon *v1alpha1.PodChaperon, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byKey == nil {
		u.byKey = map[types.NamespacedName]doubt{}
	}
	u.byKey[client.ObjectKeyFromObject(chaperon)] = doubt{uid: chaperon.UID, until: now.Add(carriedOutWithin)}
}

// begin notes when this manager began to lead, if that is not noted.
func (u *unanswered) begin(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.began.IsZero() {
		u.began = now
	}
}

// wait returns the time until no request of the past can create the delegate any more, or 0.
func (u *unanswered) wait(chaperon *v1alpha1.PodChaperon, now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	var until time.Time
	if chaperon.CreationTimestamp.Time.Before(u.began) && !delegateSeen(&chaperon.Status) {
		until = u.began.Add(carriedOutWithin)
	}
	last := u.byKey[client.ObjectKeyFromObject(chaperon)]
	if last.uid == chaperon.UID && last.until.After(until) {
		until = last.until
	}
	return max(until.Sub(now), 0)
}

func (u *unanswered) forget(key types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.byKey, key)
}

// noteUnanswered remembers a failed request to create the delegate if the API server may carry it out all the same.
func (r *Reconciler) noteUnanswered(chaperon *v1alpha1.PodChaperon, failure error) {
	if apierror.Of(failure, apierror.Create).Unknown() && !apierror.NotStored(failure) {
		r.unanswered.note(chaperon, r.clock.Now())
	}
}
