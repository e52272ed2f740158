package target

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// Whoever deletes the ClusterSource takes the rights away, and nobody in the target ends what is there.
func TestARefusalDoesNotSayThatNothingIsLeftInATarget(t *testing.T) {
	for name, test := range map[string]struct {
		asked bool          // The target can be asked whether this source has nothing there.
		after time.Duration // When it says so.
		empty bool          // The cache shows no PodChaperons.
		lost  bool          // After the refusal, the target does not accept this source any more.
		sure  bool          // Nothing was being created when the target was left.
		event string        // a part of it
	}{
		"nothing was being created": {sure: true},
		"the rights are gone":       {after: leaveWithin, event: "c2 was deleted, and PodChaperons of it may stay"},
		"the rights are gone, and the cache shows nothing": {
			empty: true, event: "c2 was deleted, and PodChaperons of it may stay",
		},
		"the rights are gone, and then the credentials": {
			empty: true, lost: true, event: "c2 was deleted, and PodChaperons of it may stay",
		},
		"the target never says that this source has nothing there": {
			asked: true, after: 2 * leaveWithin, event: "c2 was deleted, and PodChaperons of it may stay",
		},
		"the target says that this source has nothing there": {asked: true, after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaving(t)
			chaperons := schema.GroupResource{Resource: "podchaperons"}
			l.refused = apierrors.NewForbidden(chaperons, "", errors.New("no right"))
			if err := l.loop.creations.begin(l.loop.engaged.creator, "shop"); err != nil {
				t.Fatal(err)
			}
			var answer error
			if !test.sure {
				answer = errAway
			}
			l.loop.creations.end(answer)
			if test.empty {
				all, in := &v1alpha1.PodChaperon{}, client.InNamespace("shop")
				if err := l.there.DeleteAllOf(t.Context(), all, in); err != nil {
					t.Fatal(err)
				}
			}
			target, began := l.loop.engaged.target, l.clock.Now()
			target.Copied = &engage.Copied{} // PodChaperons are read namespace by namespace.
			if test.asked {
				target.FindsNothing = func(namespace string) bool {
					return namespace == "shop" && l.clock.Since(began) >= test.after
				}
			}
			if test.lost {
				l.loop.engaged.rest = func() { l.options.Registry.Lose(target) }
			}
			l.gone(t.Context(), t.Context(), &l.refuser)
			if event := l.event(); (event == "") != (test.event == "") || !strings.Contains(event, test.event) {
				t.Errorf("event %q, want one with %q", event, test.event)
			}
			if took, least := l.clock.Since(began), min(test.after, leaveWithin); took < least {
				t.Errorf("it took %s, want %s at least", took, least)
			}
		})
	}
}
