package awake

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

var start = time.Unix(1000, 0)

// renewedAt returns the Lease that was renewed at a time of the target's clock, which is an hour slow.
func renewedAt(at time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(at.Add(-time.Hour)))},
	}
}

// watch looks whenever a look is due, once a second, and returns when the state was first this one. The manager renews
// until end, and the first look is after offset.
func watch(o *Observer, state State, offset time.Duration, end, until time.Time) (time.Time, bool) {
	for now := start.Add(offset); now.Before(until); now = now.Add(time.Second) {
		if !o.Due(now) {
			continue
		}
		last := now.Truncate(timeouts.PresenceRenewal)
		if last.After(end) {
			last = end.Truncate(timeouts.PresenceRenewal)
		}
		o.Look(renewedAt(last), now)
		if o.State() == state {
			return now, true
		}
	}
	return time.Time{}, false
}

func TestAManagerThatStopsIsSilentWithin40Seconds(t *testing.T) {
	for offset := range 10 {
		for stop := range 10 {
			o := &Observer{}
			end := start.Add(time.Minute + time.Duration(stop)*time.Second)
			if at, silent := watch(o, Silent, time.Duration(offset)*time.Second, end, end); silent {
				t.Errorf("it was silent at %s, and stopped at %s", at, end)
			}
			at, silent := watch(o, Silent, end.Sub(start), end, end.Add(2*time.Minute))
			if !silent || at.Sub(end) > timeouts.SilentWithin {
				t.Errorf("looks from %d s, stopped at %d s: silent %t after %s", offset, stop, silent, at.Sub(end))
			}
			back := at.Add(time.Minute)
			o.Look(renewedAt(back), back)
			if o.State() != Awake {
				t.Error("it renews again, and is not awake")
			}
		}
	}
}

func TestNothingIsKnownBeforeTheFirstRenewalIsSeen(t *testing.T) {
	o := &Observer{}
	o.Look(renewedAt(start), start)
	if o.State() != Unknown {
		t.Errorf("state %d", o.State())
	}
	o.Look(renewedAt(start), start.Add(timeouts.SilentAfter))
	if o.State() != Silent {
		t.Errorf("state %d, although a new leader of the source has seen nothing for long", o.State())
	}
}

func TestWithoutLeaseNobodyIsSilent(t *testing.T) {
	o := &Observer{}
	for i := range 100 {
		o.Look(nil, start.Add(time.Duration(i)*time.Second))
	}
	if o.State() != NoLease {
		t.Errorf("state %d", o.State())
	}
	now := start.Add(time.Hour)
	o.Look(renewedAt(now), now)
	if o.State() != Awake {
		t.Errorf("state %d, although the Lease was just made", o.State())
	}
}

func TestTimeWithoutAnswersIsNoSilence(t *testing.T) {
	o := &Observer{}
	o.Look(renewedAt(start), start)
	now := start.Add(10 * time.Second)
	o.Look(renewedAt(now), now)
	o.Miss(now.Add(time.Hour))
	o.Look(renewedAt(now), now.Add(time.Hour+time.Second))
	if o.State() != Awake {
		t.Errorf("state %d", o.State())
	}
}

func TestWhetherTheManagerFences(t *testing.T) {
	o, now := Observer{}, time.Unix(1000, 0)
	fencing := &coordinationv1.Lease{}
	fencing.Annotations = map[string]string{v1alpha1.AnnotationFences: ""}
	for i, step := range []struct {
		lease *coordinationv1.Lease
		want  bool
	}{
		{&coordinationv1.Lease{}, false}, {fencing, true}, {&coordinationv1.Lease{}, false}, {fencing, true},
		{nil, false},
	} {
		o.Look(step.lease, now)
		if o.Fences() != step.want {
			t.Errorf("step %d: %v", i, o.Fences())
		}
	}
	o.Look(fencing, now)
	o.Miss(now.Add(time.Minute))
	if !o.Fences() {
		t.Error("a target that does not answer has not changed its manager")
	}
}

// TestAnEarlierManagerDoesNotSpareWithdrawnDelegates has a manager that keeps the annotation of the one before it.
func TestAnEarlierManagerDoesNotSpareWithdrawnDelegates(t *testing.T) {
	o, lease := Observer{}, renewedAt(start.Add(123456*time.Microsecond))
	if o.Look(lease, start); o.Spares() {
		t.Error("it does not say so")
	}
	lease.Annotations = map[string]string{
		v1alpha1.AnnotationSpares: translate.RenewedAt(*lease.Spec.RenewTime),
	}
	if o.Look(lease, start); !o.Spares() {
		t.Error("it says so")
	}
	lease.Spec.RenewTime = new(metav1.NewMicroTime(start.Add(time.Second)))
	if o.Look(lease, start); o.Spares() {
		t.Error("an earlier manager has renewed the Lease since")
	}
	lease.Annotations[v1alpha1.AnnotationSpares] = ""
	if o.Look(lease, start); o.Spares() {
		t.Error("it does not say when it was written")
	}
	lease.Spec.RenewTime = nil
	if o.Look(lease, start); o.Spares() {
		t.Error("nobody has renewed the Lease")
	}
}

func TestLooksAreMoreFrequentWhileARenewalIsOverdue(t *testing.T) {
	const overdue = timeouts.PresenceRenewal + timeouts.PresenceDoubt
	half := timeouts.PresenceDoubt / 2
	for name, test := range map[string]struct {
		looked, now time.Duration // after the last renewal was seen
		want        bool
	}{
		"half a look early":                    {0, timeouts.Health - half, false},
		"later":                                {0, timeouts.Health - half + 1, true},
		"the renewal is not overdue":           {overdue - half - 2, overdue - 1, false},
		"the renewal is overdue in a moment":   {overdue - half - 1, overdue, false},
		"the renewal is overdue":               {overdue - half, overdue + 1, true},
		"the renewal is overdue, a look early": {overdue, overdue + half, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Observer{}
			o.Look(renewedAt(start), start)
			o.Look(renewedAt(start), start.Add(test.looked))
			if got := o.Due(start.Add(test.now)); got != test.want {
				t.Errorf("due %t", got)
			}
		})
	}
}
