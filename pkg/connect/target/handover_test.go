package target

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
)

// heir is the Lease of the leader election.
type heir struct{ left string }

func (h *heir) NextHolder(context.Context) (string, error) { return h.left, nil }

func (h *heir) SetNextHolder(_ context.Context, holder string) error {
	h.left = holder
	return nil
}

// The next leader does not know what this process has asked for.
func TestALeaseIsNotLeftToTheNextLeaderWhileAPodChaperonMayBeCreated(t *testing.T) {
	for name, test := range map[string]struct {
		goesOn  bool  // the life of the process
		begins  bool  // a request to create
		ends    bool  // so does the request
		err     error // its answer
		since   time.Duration
		handsOn bool
	}{
		"nothing was created":    {handsOn: true},
		"the process goes on":    {goesOn: true},
		"a request is under way": {begins: true, since: time.Hour},
		"it was answered":        {begins: true, ends: true, handsOn: true},
		"it was not answered":    {begins: true, ends: true, err: errAway, since: carriedOutWithin - 1},
		"it was not answered, long ago": {
			begins: true, ends: true, err: errAway, handsOn: true, since: carriedOutWithin,
		},
		"it was given up because it ends": {begins: true, ends: true, err: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0)
			by := &creator{all: newCreations(f.clock)}
			if test.begins {
				if err := by.all.begin(by, "shop"); err != nil {
					t.Fatal(err)
				}
			}
			if test.ends {
				by.all.end(test.err)
			}
			f.clock.SetTime(f.clock.Now().Add(test.since))
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "admiralty", Name: "us", UID: "1"}}
			there := fake.NewClientBuilder().WithObjects(lease).Build()
			own := &heir{}
			process := hold.New(hold.Options{ClusterID: "us", Name: "manager", Clock: f.clock, OwnLease: own})
			process.Lead()
			life, end := context.WithCancel(t.Context())
			defer end()
			held, err := process.Acquire(t.Context(), life, hold.Request{
				Target: types.NamespacedName{Name: "c2"}, Client: there, Lease: client.ObjectKeyFromObject(lease),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := process.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}

			if !test.goesOn {
				end()
			}
			(&engagement{hold: held, creator: by}).release(life)
			if err := there.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
				t.Fatal(err)
			}
			if got := ptr.Deref(lease.Spec.HolderIdentity, "") == own.left; got != test.handsOn {
				t.Errorf("the Lease is left to the next leader: %t", got)
			}
		})
	}
}
