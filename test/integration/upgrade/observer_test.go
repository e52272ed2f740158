package upgrade

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// TestAnObservationThatSeesNothingMoreIsAFault shows that the observer cannot be blind.
func TestAnObservationThatSeesNothingMoreIsAFault(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*watch.FakeWatcher)
		faults  []string
	}{
		"a watch ends": {
			func(w *watch.FakeWatcher) { w.Add(&v1alpha1.PodChaperon{}) },
			[]string{"c2: a watch has ended"},
		},
		"a watch fails": {
			func(w *watch.FakeWatcher) { w.Error(&metav1.Status{Message: "too old"}) },
			[]string{"c2: a watch says ERROR: too old", "c2: a watch has ended"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, events := &observer{chaperons: map[string]string{}}, watch.NewFakeWithOptions(watch.FakeOptions{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				o.see("c2", events)
			}()
			test.happens(events)
			events.Stop()
			waittest.Receive(t, "the end of the watch", ended)
			if !slices.Equal(o.faults, test.faults) {
				t.Errorf("faults are %q, want %q", o.faults, test.faults)
			}
		})
	}
}
