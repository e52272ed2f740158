package target

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
)

// leaseNamed returns a Lease of a target.
func leaseNamed(name string, annotations ...string) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "admiralty", Name: name, UID: "1", Annotations: map[string]string{},
	}}
	for _, key := range annotations {
		lease.Annotations[key] = ""
	}
	return lease
}

// leasing returns a SourceGrant that names the Lease of this source.
func leasing(g *v1alpha1.SourceGrant) {
	g.Status.Lease = &v1alpha1.LeaseReference{Namespace: "admiralty", Name: "us"}
}

// holds makes this source hold Leases. It remembers an epoch of the target, and accepts the loss of another one.
func (r *reaching) holds(t *testing.T, remembered int64, accepted string) {
	t.Helper()
	r.options.Holds = hold.New(hold.Options{ClusterID: "c1", Name: "manager", Clock: r.clock})
	r.options.Holds.Lead()
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
	target.Status.Epoch, target.Status.EpochOf = remembered, "c2/"+grantOf().Name
	if accepted != "" {
		target.Annotations = map[string]string{v1alpha1.AnnotationAcceptEpoch: accepted}
	}
	r.options.Client = fakeOf(t, interceptor.Funcs{}, target)
	r.remakes()
}

func TestAnEngagedTargetIsHeld(t *testing.T) {
	withdrawing := leaseNamed(v1alpha1.LeaseManager)
	withdrawing.Spec.RenewTime = new(metav1.NewMicroTime(time.Unix(1000, 0)))
	withdrawing.Annotations[v1alpha1.AnnotationSpares] = time.Unix(1000, 0).UTC().Format(time.RFC3339)
	for name, test := range map[string]struct {
		manager                 client.Object
		fences, changes, spares bool
	}{
		"its manager has no Lease":    {},
		"its manager is an older one": {manager: leaseNamed(v1alpha1.LeaseManager)},
		"its manager fences": {
			manager: leaseNamed(v1alpha1.LeaseManager, v1alpha1.AnnotationFences), fences: true,
		},
		"its manager changes delegates as they run": {
			manager: leaseNamed(v1alpha1.LeaseManager, v1alpha1.AnnotationChanges), changes: true,
		},
		"its manager spares withdrawn delegates that have a node": {
			manager: withdrawing, spares: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{summaryOf("c2"), grantOf(leasing), leaseNamed("us")}
			if test.manager != nil {
				objects = append(objects, test.manager)
			}
			r := newReaching(t, keyC2, objects...)
			r.holds(t, 3, "")
			r.loop.lacking = r.clock.Now()
			// An earlier engagement has seen a manager that fences.
			r.loop.awake.Look(leaseNamed(v1alpha1.LeaseManager, v1alpha1.AnnotationFences), r.clock.Now())
			// The Lease has lost the epoch that is remembered, unless it has it.
			lease := leaseNamed("us")
			if err := r.server.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
				t.Fatal(err)
			}
			lease.Annotations = map[string]string{v1alpha1.AnnotationEpoch: "3"}
			if err := r.server.Update(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
			e := r.engages(t)
			if e.hold == nil || e.target.Confirms == nil || r.loop.epoch.is != e.hold.Epoch() || r.loop.epoch.is <= 3 {
				t.Errorf("held: %t, epoch %d", e.hold != nil, r.loop.epoch.is)
			}
			if !r.loop.lacking.IsZero() {
				t.Error("it counts as one that lacks its Lease")
			}
			knows := func() [3]bool { return [...]bool{e.target.Fences(), e.target.Changes(), e.target.Spares()} }
			said := [...]bool{test.fences, test.changes, test.spares}
			if knows() != said {
				t.Errorf("it fences, changes, spares: %t", knows())
			}
			// The target may answer nothing from now on.
			r.loop.engaged, r.loop.doubts = e, 1
			r.loop.look(t.Context(), want{})
			if knows() != said {
				t.Errorf("without an answer, it fences, changes, spares: %t", knows())
			}
		})
	}
}

func TestATargetWithoutALeaseForUs(t *testing.T) {
	rival := leaseNamed("us")
	rival.Spec.HolderIdentity, rival.Spec.LeaseDurationSeconds = ptr.To("them"), ptr.To[int32](15)
	rival.Annotations[v1alpha1.LabelParentClusterID] = "c9"
	for name, test := range map[string]struct {
		objects    []client.Object
		remembered int64
		accepted   string
		lacks      time.Duration // before the attempt that counts
		self       bool
		want       string // the reason, if it is not engaged
		shared     string
		asks       bool
	}{
		"it makes none":          {objects: []client.Object{grantOf()}, asks: true},
		"it makes none any more": {objects: []client.Object{grantOf()}, remembered: 7, want: v1alpha1.ReasonForbidden},
		"it has made none for a while": {
			objects: []client.Object{grantOf()}, remembered: 7, lacks: lackingFor, want: v1alpha1.ReasonTurnedBack,
		},
		"somebody accepts this": {objects: []client.Object{grantOf()}, remembered: 7, accepted: "7", asks: true},
		"it is gone, and we have never held it": {
			objects: []client.Object{grantOf(leasing)}, lacks: lackingFor, want: v1alpha1.ReasonForbidden,
		},
		"it is gone, and we have held it": {
			objects: []client.Object{grantOf(leasing)}, remembered: 7, lacks: lackingFor,
			want: v1alpha1.ReasonTurnedBack,
		},
		"another cluster holds it": {objects: []client.Object{grantOf(leasing), rival}, shared: "c9", asks: true},
		"it is the source itself":  {self: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReaching(t, keyC2, append(test.objects, summaryOf("c2"))...)
			r.holds(t, test.remembered, test.accepted)
			r.loop.options.Clock = hasty{r.clock}
			r.want.self = test.self
			if test.lacks > 0 {
				_, _ = r.loop.engage(t.Context(), r.life, r.want)
				r.clock.SetTime(r.clock.Now().Add(test.lacks))
			}
			e, err := r.loop.engage(t.Context(), r.life, r.want)
			r.loop.engaged = e
			if (err == nil) != (test.want == "") {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				if got := r.loop.conditionOf(err, r.want); got.Reason != test.want {
					t.Errorf("got %s: %s", got.Reason, got.Message)
				}
				return
			}
			if e.hold != nil || e.sharedWith != test.shared || e.leases.own.Name != "" || e.target.Itself != test.self {
				t.Errorf("held: %t, shared with %q, itself: %t", e.hold != nil, e.sharedWith, e.target.Itself)
			}
			if e.target.Changes() != test.self || e.target.Spares() != test.self {
				t.Errorf("changes: %t, spares: %t", e.target.Changes(), e.target.Spares())
			}
			if asked := r.server.count("create selfsubjectreviews") > 0; asked != test.asks {
				t.Errorf("it was asked for the name of our user: %t", asked)
			}
		})
	}
}

func TestATargetThatCannotSayWhoseItIsIsNotEngaged(t *testing.T) {
	for name, request := range map[string]string{"the user": "create selfsubjectreviews", "the Lease": "get leases"} {
		r := newReaching(t, keyC2, summaryOf("c2"), grantOf(leasing), leaseNamed("us"))
		r.holds(t, 0, "")
		r.loop.options.Clock = hasty{r.clock}
		r.server.answer(request, apierrors.NewBadRequest("no"))
		_, err := r.loop.engage(t.Context(), r.life, r.want)
		if err == nil {
			t.Fatalf("%s: it is engaged", name)
		}
		if got := r.loop.conditionOf(err, r.want); got.Reason != v1alpha1.ReasonUnreachable {
			t.Errorf("%s: %s: %s", name, got.Reason, got.Message)
		}
	}
}
