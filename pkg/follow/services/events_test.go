package services

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

// created stands for the API server. It has the notes of the events that were created.
type created chan string

func (c created) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	c <- event.Note
	return event, nil
}

func (created) Update(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return event, nil
}

// Patch counts an event.
func (created) Patch(_ context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return event, nil
}

func TestEachTargetAndMessageHasAnEventOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := make(created, 10)
		broadcaster := events.NewBroadcaster(notes)
		ctx, cancel := context.WithCancel(t.Context())
		if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
			t.Fatal(err)
		}
		f := &Follower{options: Options{Recorder: broadcaster.NewRecorder(scheme.Scheme, "services")}}
		for _, about := range []struct{ target, message string }{
			{"c2", "quota"}, {"c3", "quota"}, {"c2", "policy"}, {"c2", "quota"}, {"c3", "quota"},
		} {
			f.recordNotCopied(web(), targetOf(about.target, ""), about.message)
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		broadcaster.Shutdown()
		close(notes)
		var got []string
		for note := range notes {
			got = append(got, note)
		}
		want := []string{
			"Target c2 (virtual node ): quota", "Target c3 (virtual node ): quota", "Target c2 (virtual node ): policy",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
