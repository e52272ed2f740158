package target

import (
	"net/http"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/awake"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

func TestFencingHoldsOnlyIfTheTargetWasLostWhenItFenced(t *testing.T) {
	type step struct {
		reason          string
		engaged, fences bool
	}
	up := step{v1alpha1.ReasonConnected, true, true}
	lost := step{v1alpha1.ReasonUnreachable, true, true}
	for name, test := range map[string]struct {
		earlier *bool
		steps   []step
		want    bool
	}{
		"it was connected, and is lost": {steps: []step{up, lost}, want: true},
		"it was flapping, and is lost":  {steps: []step{{v1alpha1.ReasonFlapping, true, true}, lost}, want: true},
		"it fenced nothing":             {steps: []step{{v1alpha1.ReasonConnected, true, false}, lost}},
		"another manager acted there":   {steps: []step{up, {v1alpha1.ReasonHeldByOther, false, false}, lost}},
		"it had been set back":          {steps: []step{up, {v1alpha1.ReasonTurnedBack, false, false}, lost}},
		"it refused this source":        {steps: []step{up, {v1alpha1.ReasonForbidden, true, true}, lost}},
		"it did not know this source":   {steps: []step{up, {v1alpha1.ReasonUnauthorized, true, true}, lost}},
		"its manager was gone":          {steps: []step{up, {v1alpha1.ReasonNotInstalled, true, true}, lost}},
		"its Secret was gone":           {steps: []step{up, {v1alpha1.ReasonSecretNotFound, false, false}, lost}},
		"it has been connected since": {
			steps: []step{up, {v1alpha1.ReasonHeldByOther, false, false}, up, lost}, want: true,
		},
		"it is lost, and this source has no key for a moment": {
			earlier: ptr.To(true), steps: []step{lost, {v1alpha1.ReasonNoKey, false, false}, lost}, want: true,
		},
		"it is lost, and this source does not know its own addresses yet": {
			earlier: ptr.To(true), steps: []step{{v1alpha1.ReasonAddressesUnknown, false, false}, lost}, want: true,
		},
		"a new leader, which relies":    {earlier: ptr.To(true), steps: []step{lost}, want: true},
		"a new leader, which must not":  {earlier: ptr.To(false), steps: []step{lost}},
		"a new leader after an old one": {steps: []step{lost}},
		"a new leader that is refused": {
			earlier: ptr.To(true), steps: []step{{v1alpha1.ReasonForbidden, false, false}, lost},
		},
		"a new leader that connects once": {earlier: ptr.To(false), steps: []step{up, lost}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var is fencing
			for _, s := range test.steps {
				var e *engagement
				if s.engaged {
					e = &engagement{target: &engage.Target{}}
					e.target.SetFences(s.fences)
				}
				is = is.after(s.reason, e)
			}
			if got := is.write(v1alpha1.TargetStatus{Fences: test.earlier}); *got != test.want {
				t.Errorf("it holds: %t", *got)
			}
		})
	}
}

func TestATargetWhoseManagerIsSilentFencesNothing(t *testing.T) {
	f := newFixture(t, http.StatusUnauthorized)
	l := newLoop(f.connections, types.NamespacedName{Name: "c2"}, f.refuser, nil)
	l.engaged = &engagement{target: &engage.Target{}, hold: &hold.Hold{}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		UID: "1", Annotations: map[string]string{v1alpha1.AnnotationFences: ""},
	}}
	for _, want := range []bool{true, false} {
		l.awake.Look(lease, f.clock.Now())
		if got := l.fences(l.engaged); got != want {
			t.Errorf("after %s of silence, it fences: %t", f.clock.Since(l.awake.Since()), got)
		}
		f.clock.Step(timeouts.SilentAfter)
	}
	l.engaged.hold = nil
	l.awake = awake.Observer{}
	l.awake.Look(lease, f.clock.Now())
	if l.fences(l.engaged) {
		t.Error("a target without a Lease of this source fences")
	}
}

// A ClusterTarget that is made again at once may lead to another cluster.
func TestWhatIsKnownOfFencingGoesWithTheTarget(t *testing.T) {
	f := newFixture(t, http.StatusUnauthorized)
	l := newLoop(f.connections, types.NamespacedName{Name: "c2"}, f.refuser, nil)
	l.fencing, l.known, l.wasConnected = fencingHolds, "c2", true
	l.awake.Look(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: "1"}}, f.clock.Now())
	l.want = want{fingerprint: "gone", gone: true}
	l.run(t.Context())
	if l.fencing != fencingUnknown || l.known != "" || l.awake != (awake.Observer{}) || l.wasConnected {
		t.Errorf("fencing %d, cluster %q, manager %+v", l.fencing, l.known, l.awake)
	}
}
