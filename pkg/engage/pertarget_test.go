package engage

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestValuesOfTargetsLastAsLongAsTheirEngagements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var values PerTarget[string]
		old, anew := newTarget("c2"), newTarget("c2")
		first, end := context.WithCancel(t.Context())
		values.Set(first, old, "old")
		values.Set(t.Context(), anew, "anew")
		if got := len(values.All()); got != 2 {
			t.Errorf("%d values while the target is engaged anew, want 2", got)
		}
		end()
		if _, ok := values.Get(old); ok {
			t.Error("the value of an engagement that has ended is still there")
		}
		if got, ok := values.Get(anew); !ok || got != "anew" {
			t.Errorf("got %q, %t for the new engagement", got, ok)
		}
		if got := values.All(); len(got) != 1 || got[0] != "anew" {
			t.Errorf("got %q when the first engagement has ended", got)
		}
		synctest.Wait()
		if got := len(values.byTarget); got != 1 {
			t.Errorf("%d values are kept when the first engagement has ended", got)
		}
	})
}

func TestWorkersReconcileWhatWasEnqueuedBeforeTheyStarted(t *testing.T) {
	done := make(chan string, 1)
	workers := NewWorkers(WorkersOptions[string]{
		Name: "test",
		Reconciler: reconcile.TypedFunc[string](func(_ context.Context, key string) (reconcile.Result, error) {
			done <- key
			return reconcile.Result{}, nil
		}),
		Count:      1,
		FirstRetry: time.Millisecond,
		LastRetry:  time.Second,
		Logger:     logr.Discard(),
	})
	workers.Queue.Add("key")
	if err := workers.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case key := <-done:
		if key != "key" {
			t.Errorf("got %q", key)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing was reconciled")
	}
}
