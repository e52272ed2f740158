package feedback

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestALostTargetThatMayNotFenceSaysWhyNoEndIsConfirmed(t *testing.T) {
	const silent, doubtful = "manager was silent before", "status.fences is not true"
	for name, test := range map[string]struct {
		change func(*lostWorld)
		want   string // part of the event; empty if there is none
	}{
		"it fences":              {func(*lostWorld) {}, ""},
		"its manager was silent": {func(w *lostWorld) { w.awake = metav1.ConditionFalse }, silent},
		"it refused this source": {func(w *lostWorld) { w.unreliable = true }, doubtful},
		"it cannot fence":        {func(w *lostWorld) { w.cannot = true }, doubtful},
		"it cannot, and answers": {func(w *lostWorld) { w.cannot, w.reachable = true, true }, ""},
		"it refuses this source": {func(w *lostWorld) {
			w.unreliable, w.connected = true, v1alpha1.ReasonForbidden
		}, ""},
		"no pod asks for fencing": {func(w *lostWorld) { w.unreliable, w.proxy.Annotations = true, nil }, ""},
		"no pod is there": {func(w *lostWorld) {
			w.unreliable, w.proxy.Spec.NodeName = true, "admiralty-c3"
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := lostWorld{
				proxy: fencedProxy(), connected: v1alpha1.ReasonUnreachable, engaged: true,
				renewed: map[string]time.Duration{"c2": time.Minute, "id": time.Minute},
			}
			test.change(&w)
			if !w.stays(t) || len(w.warnings) > 0 != (test.want != "") ||
				!strings.Contains(strings.Join(w.warnings, ""), test.want) {
				t.Errorf("warnings are %q, want %q", w.warnings, test.want)
			}
		})
	}
}

func TestWhyNoEndIsConfirmedIsSaidOnceUntilTheTargetIsBack(t *testing.T) {
	w := lostWorld{
		proxy: fencedProxy(), connected: v1alpha1.ReasonUnreachable, awake: metav1.ConditionFalse, unreliable: true,
	}
	c, look := w.start(t)
	set := func(change func(*v1alpha1.TargetStatus)) {
		t.Helper()
		target := &v1alpha1.ClusterTarget{}
		if err := c.Get(t.Context(), lostKey, target); err != nil {
			t.Fatal(err)
		}
		change(&target.Status)
		if err := c.Update(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	}
	connect := func(reason string) func(*v1alpha1.TargetStatus) {
		return func(status *v1alpha1.TargetStatus) { status.Conditions[0].Reason = reason }
	}
	for _, step := range []struct {
		what   string
		change func(*v1alpha1.TargetStatus)
		events int
	}{
		{"the target is lost", func(*v1alpha1.TargetStatus) {}, 1},
		{"its status changes", func(status *v1alpha1.TargetStatus) { status.KubernetesVersion = "v1.37.1" }, 0},
		{"there is another cause", func(status *v1alpha1.TargetStatus) {
			status.Conditions = status.Conditions[:1]
		}, 1},
		{"it is back", connect(v1alpha1.ReasonConnected), 0},
		{"it is lost again", connect(v1alpha1.ReasonUnreachable), 1},
	} {
		set(step.change)
		look()
		if len(w.warnings) != step.events {
			t.Errorf("when %s, the events are %q, want %d", step.what, w.warnings, step.events)
		}
	}
}
