package presence

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

func TestTheLeaseIsMadeAndRenewedAlsoAfterAFailure(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1000, 0))
	server := fake.NewClientset()
	failing := false
	server.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing, nil, errors.New("down")
	})
	p := &Presence{
		Leases: server.CoordinationV1().Leases("leases"), Holder: "me", Clock: clock, Logger: testr.New(t),
	}
	go func() { _ = p.Start(t.Context()) }()

	expectRenewed(t, p, clock)
	clock.Step(timeouts.PresenceRenewal)
	expectRenewed(t, p, clock)
	failing = true
	clock.Step(timeouts.PresenceRenewal)
	waitForTimer(t, clock)
	failing = false
	clock.Step(timeouts.PresenceRetry)
	expectRenewed(t, p, clock)
}

// expectRenewed waits until the Lease was renewed now, and the next renewal is due.
func expectRenewed(t *testing.T, p *Presence, clock *testclock.FakeClock) {
	t.Helper()
	waitForTimer(t, clock)
	lease, err := p.Leases.Get(t.Context(), v1alpha1.LeaseManager, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := renewed(lease); !got.Equal(clock.Now()) {
		t.Errorf("renewed at %s, want %s", got, clock.Now())
	}
}

func renewed(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

func waitForTimer(t *testing.T, clock *testclock.FakeClock) {
	t.Helper()
	waittest.Eventually(t, "it waits for the next renewal", clock.HasWaiters)
}

func TestTheLeaseSaysWhetherTheManagerFences(t *testing.T) {
	server := fake.NewClientset()
	p := &Presence{
		Leases: server.CoordinationV1().Leases("leases"), Holder: "me",
		Clock: testclock.NewFakeClock(time.Unix(1000, 123456789)),
	}
	for _, fences := range []bool{false, true, false} {
		p.Fences = fences
		if err := p.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		lease, err := p.Leases.Get(t.Context(), v1alpha1.LeaseManager, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, says := lease.Annotations[v1alpha1.AnnotationFences]; says != fences {
			t.Errorf("it says %v, want %v", says, fences)
		}
		if _, says := lease.Annotations[v1alpha1.AnnotationChanges]; !says {
			t.Error("it does not say that it applies changes")
		}
		// What the Lease has when somebody reads it.
		data, err := json.Marshal(lease)
		if err != nil {
			t.Fatal(err)
		}
		read := &coordinationv1.Lease{}
		if err := json.Unmarshal(data, read); err != nil {
			t.Fatal(err)
		}
		if got := read.Annotations[v1alpha1.AnnotationSpares]; got != translate.RenewedAt(*read.Spec.RenewTime) {
			t.Errorf("it says %q of withdrawn delegates", got)
		}
	}
}
