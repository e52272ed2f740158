package target

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestAStatusThatTheAPIServerRefusesIsAnEvent(t *testing.T) {
	resource := schema.GroupResource{Resource: "clustertargets"}
	lacks := errors.New(".status.fences: field not declared in schema")
	for name, test := range map[string]struct {
		err  error
		want string // a part of the event
	}{
		"it is written":                {},
		"the definition lacks a field": {apierrors.NewInternalError(lacks), "StatusNotWritten"},
		"the event says which":         {apierrors.NewInternalError(lacks), ".status.fences: field not declared"},
		"the manager may not":          {apierrors.NewForbidden(resource, "c2", errors.New("no")), "may the manager"},
		"somebody else wrote":          {apierrors.NewConflict(resource, "c2", errors.New("changed")), ""},
		"the target is gone":           {apierrors.NewNotFound(resource, "c2"), ""},
		"it is busy":                   {apierrors.NewTooManyRequests("busy", 1), ""},
		"it does not answer in time":   {apierrors.NewTimeoutError("slow", 1), ""},
		"it does not answer":           {errors.New("connection refused"), ""},
	} {
		recorder := events.NewFakeRecorder(1)
		r := &Reconciler{options: Options{Recorder: recorder}}
		err := test.err
		if err != nil {
			err = fmt.Errorf("writing the status: %w", err)
		}
		r.recordUnwritten(&v1alpha1.ClusterTarget{}, err)
		var event string
		if len(recorder.Events) > 0 {
			event = <-recorder.Events
		}
		if (event == "") != (test.want == "") || !strings.Contains(event, test.want) {
			t.Errorf("%s: event %q, want one with %q", name, event, test.want)
		}
	}
}
