package server

import (
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

func TestLogsOfAnEphemeralContainerWaitForItsStart(t *testing.T) {
	for name, test := range map[string]struct {
		starts bool
		wait   func(*fixture)
	}{
		"until it starts": {true, func(f *fixture) { f.clock.Step(startCheck) }},
		"not for ever, and get what the target says": {false, func(f *fixture) { f.clock.Step(startTimeout) }},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			f := newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
				asked <- struct{}{}
				fmt.Fprint(w, "hello")
			}, everyone())
			answered := make(chan string, 1)
			go func() {
				_, body := f.request(t, "GET", "/containerLogs/default/web/debugger", "admin")
				answered <- body
			}()
			waittest.Eventually(t, "the request waits", f.clock.HasWaiters)
			if len(asked) > 0 {
				t.Error("the target was asked before the container started")
			}
			if test.starts {
				f.start(t, "debugger")
			}
			test.wait(f)
			if got := waittest.Receive(t, "an answer", answered); got != "hello" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// start reports that an ephemeral container of the delegate runs.
func (f *fixture) start(t *testing.T, container string) {
	t.Helper()
	chaperon := &v1alpha1.PodChaperon{}
	key := types.NamespacedName{Namespace: "default", Name: f.delegate}
	if err := f.target.Client.Get(t.Context(), key, chaperon); err != nil {
		t.Fatal(err)
	}
	chaperon.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{
		Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	if err := f.target.Client.Update(t.Context(), chaperon); err != nil {
		t.Fatal(err)
	}
}
