package services

import (
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
)

func TestNothingIsCopiedToTheSourceItselfOrALostTarget(t *testing.T) {
	key := types.NamespacedName{Name: "c2"}
	for name, test := range map[string]struct {
		target *engage.Target
		lost   bool
		want   []string
	}{
		"a target":          {target: &engage.Target{Key: key}, want: []string{"create Service web"}},
		"a target, lost":    {target: &engage.Target{Key: key}, lost: true},
		"the source itself": {target: &engage.Target{Key: key, Itself: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []client.Object{web(everywhere())}, nil)
			c, there := w.engage(t, test.target)
			c.existing[""] = copiesOf(t)
			c.prepared.Store(true)
			if test.lost {
				registry := engage.NewRegistry()
				if err := registry.Engage(t.Context(), test.target); err != nil {
					t.Fatal(err)
				}
				registry.Lose(test.target)
			}
			if _, err := c.Reconcile(t.Context(), item{kindService, shop("web")}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, there.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestARefusalIsReportedOnce has a Service that the target refuses. Its Ingress depends on it.
func TestARefusalIsReportedOnce(t *testing.T) {
	w := newWorld(t, []client.Object{web(everywhere()), pathTo("web")}, nil)
	service := item{kindService, shop("web")}
	for step, test := range []struct {
		item      item
		err       error
		events    int
		ingresses int
	}{
		{service, nil, 0, 0},
		{service, &writer.NotOursError{Kind: "Service"}, 1, 1},
		{service, &writer.NotOursError{Kind: "Service"}, 0, 0},
		{service, nil, 0, 1},
		{item{kindIngress, shop("entry")}, &writer.NotOursError{Kind: "Ingress"}, 1, 0},
	} {
		if _, err := w.c2.finish(t.Context(), test.item, 0, test.err); err != nil {
			t.Fatal(err)
		}
		if got := len(w.events.Events); got != test.events {
			t.Errorf("step %d: %d events, want %d", step, got, test.events)
		}
		for len(w.events.Events) > 0 {
			<-w.events.Events
		}
		if got := len(queued(w.c2.workers)); got != test.ingresses {
			t.Errorf("step %d: %d items, want %d", step, got, test.ingresses)
		}
	}
}

// TestARefusalThatLastsIsReportedAgain has a Service that the target refuses all the time.
func TestARefusalThatLastsIsReportedAgain(t *testing.T) {
	w := newWorld(t, []client.Object{web(everywhere()), pathTo("web")}, nil)
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	ctx := log.IntoContext(t.Context(), logger)
	for step, test := range []struct {
		later             time.Duration
		kind              string
		events, ingresses int
		lines             int // all so far
	}{
		{0, "Service", 1, 1, 1},
		{refusedRetry, "Service", 0, 0, 1},
		{engage.SayAgainAfter - refusedRetry - 1, "Service", 0, 0, 1},
		{1, "Service", 1, 0, 1},
		{engage.SayAgainAfter - 1, "Service", 0, 0, 1},
		{1, "Service", 1, 0, 1},
		{refusedRetry, "EndpointSlice", 1, 1, 2},
		{engage.SayAgainAfter - 1, "EndpointSlice", 0, 0, 2},
	} {
		w.clock.SetTime(w.clock.Now().Add(test.later))
		err := &writer.NotOursError{Kind: test.kind}
		if _, err := w.c2.finish(ctx, item{kindService, shop("web")}, 0, err); err != nil {
			t.Fatal(err)
		}
		if got := len(w.events.Events); got != test.events {
			t.Errorf("step %d: %d events, want %d", step, got, test.events)
		}
		for len(w.events.Events) > 0 {
			<-w.events.Events
		}
		if got := len(queued(w.c2.workers)); got != test.ingresses {
			t.Errorf("step %d: %d items, want %d", step, got, test.ingresses)
		}
		if len(lines) != test.lines {
			t.Errorf("step %d: the log has %q, want %d lines", step, lines, test.lines)
		}
	}
}

// TestARefusalIsReportedToEachOriginal has an object in a target that stands in the way, also while no original exists.
func TestARefusalIsReportedToEachOriginal(t *testing.T) {
	w := newWorld(t, nil, nil)
	first, second := web(everywhere()), web(everywhere())
	first.UID, second.UID = "1", "2"
	for step, test := range []struct {
		from   []client.Object
		events int
	}{
		{[]client.Object{first}, 1}, {nil, 0}, {[]client.Object{second}, 1}, {[]client.Object{second}, 0},
		{[]client.Object{first}, 1},
	} {
		w.originals = originalsOf(t, test.from...)
		err := &writer.NotOursError{Kind: "Service"}
		if _, err := w.c2.finish(t.Context(), item{kindService, shop("web")}, 0, err); err != nil {
			t.Fatal(err)
		}
		if got := len(w.events.Events); got != test.events {
			t.Errorf("step %d: %d events, want %d", step, got, test.events)
		}
		for len(w.events.Events) > 0 {
			<-w.events.Events
		}
	}
}
