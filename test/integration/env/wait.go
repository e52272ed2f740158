package env

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// patience is far longer than a change takes, also on a busy machine: only a change that never comes fails a test.
	patience = 2 * time.Minute
	interval = 20 * time.Millisecond
)

// Eventually calls check until it returns nil. It ends the test with the last error of check if that takes too long.
// The context given to check ends with the test or when time is up.
func Eventually(t T, check func(ctx context.Context) error) {
	t.Helper()
	Must(t, eventually(t.Context(), patience, check))
}

func eventually(ctx context.Context, limit time.Duration, check func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, interval, limit, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err == nil || ctx.Err() == nil {
			last = err // The error of an expired context would hide the one that matters.
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("still not so after %s: %w", limit, last)
	}
	return nil
}

// WaitFor waits until an object exists and check accepts it. It returns the object, as it is then.
func WaitFor[O client.Object](t T, c *Cluster, object O, check func(O) error) O {
	t.Helper()
	Eventually(t, func(ctx context.Context) error {
		if err := read(ctx, c, object); err != nil {
			return err
		}
		if err := check(object); err != nil {
			return fmt.Errorf("%s: %w", describe(c, object), err)
		}
		return nil
	})
	return object
}

// WaitGone waits until an object does not exist any more. If the object given has a UID, another of its name may
// exist.
func WaitGone(t T, c *Cluster, object client.Object) {
	t.Helper()
	uid := object.GetUID()
	live := emptyLike(object)
	Eventually(t, func(ctx context.Context) error {
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), live)
		switch {
		case apierrors.IsNotFound(err), err == nil && uid != "" && live.GetUID() != uid:
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%s still exists", describe(c, object))
	})
}

// Events returns the events about an object, or about the very object if the one given has a UID.
func Events(t T, c *Cluster, about client.Object) []eventsv1.Event {
	t.Helper()
	list := &eventsv1.EventList{}
	Must(t, c.Client.List(t.Context(), list))
	var found []eventsv1.Event
	for i := range list.Items {
		r := list.Items[i].Regarding
		named := r.Namespace == about.GetNamespace() && r.Name == about.GetName()
		if named && (about.GetUID() == "" || r.UID == about.GetUID()) {
			found = append(found, list.Items[i])
		}
	}
	return found
}

// WaitForEvent waits for an event about an object that has a reason, and a note that contains a text.
func WaitForEvent(t T, c *Cluster, about client.Object, reason, text string) {
	t.Helper()
	Eventually(t, func(context.Context) error {
		events := Events(t, c, about)
		for i := range events {
			if events[i].Reason == reason && strings.Contains(events[i].Note, text) {
				return nil
			}
		}
		return fmt.Errorf("no event %s about %s says %q: %v", reason, describe(c, about), text, events)
	})
}

// ExpectEqual fails the test with the difference if got is not what is wanted.
func ExpectEqual(t T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
