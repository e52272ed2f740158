package objects

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
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

func TestEachTargetAndReasonHasAnEventOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := make(created, 10)
		broadcaster := events.NewBroadcaster(notes)
		ctx, cancel := context.WithCancel(t.Context())
		must(t, broadcaster.StartRecordingToSinkWithContext(ctx))
		f := &Follower{options: Options{Recorder: broadcaster.NewRecorder(scheme.Scheme, "objects")}}
		original := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
		for _, about := range []struct{ target, reason string }{
			{"c2", "quota"}, {"c3", "quota"}, {"c2", "policy"}, {"c2", "quota"}, {"c3", "quota"},
		} {
			target := &engage.Target{Key: types.NamespacedName{Name: about.target}}
			f.recordNotFollowed(original, target, &needs.RefusedError{Ref: secret("db").Ref, Reason: about.reason})
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		broadcaster.Shutdown()
		close(notes)
		var got []string
		for note := range notes {
			words := strings.Fields(note)
			got = append(got, words[1]+" "+words[len(words)-1])
		}
		if diff := cmp.Diff([]string{"c2 quota", "c3 quota", "c2 policy"}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
