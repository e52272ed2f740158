//go:build e2e && long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Ten minutes is the shortest life of a token. Pods are replaced all the time, while the first token expires and two
// others follow it.
func TestTokensOfTenMinutesAreRenewedUnderLoad(t *testing.T) {
	const life = 10 * time.Minute
	w := setUp(t)
	w.endWell(t)
	t.Cleanup(func() {
		if _, err := run(context.WithoutCancel(t.Context()), "kubectl-multicluster", "connect", "c2",
			"--source-context", "c1", "--target-context", "c2"); err != nil {
			t.Error(err)
		}
	})
	runs := w.managerRuns(t)
	w.connect(t, "c2", "c1", "--target-context", "c2", "--token-duration", life.String())
	began := time.Now()
	lost := w.watchConnected(t, "c2")
	delegates := w.logDelegates(t)
	create(t, w.c1, w.webServer(10))
	w.quiet(t, 10)

	renewals := map[time.Time]bool{}
	for time.Since(began) < life+time.Minute || len(renewals) < 2 {
		if time.Since(began) > 2*life {
			t.Fatalf("only %d renewals after %s", len(renewals), time.Since(began))
		}
		w.kubectl(t, "rollout", "restart", "deployment/web")
		w.kubectl(t, "rollout", "status", "deployment/web", "--timeout=2m")
		credentials := w.credentials(t, "c2")
		if credentials.Problem != "" || credentials.Expires.Time.Before(time.Now()) {
			t.Fatalf("credentials of c2: %+v", credentials)
		}
		if credentials.Renewed != nil {
			renewals[credentials.Renewed.Time] = true
		}
	}
	if p := w.quiet(t, 10); p.byNode["admiralty-c2"] == 0 {
		t.Errorf("no pod is in c2: %v", p.byNode)
	}
	for name, count := range w.managerRuns(t) {
		if was, ok := runs[name]; !ok || was != count {
			t.Errorf("manager %s was started again", name)
		}
	}

	// The token in the user's Secret has expired. The next leader uses the renewed one.
	w.killLeader(t)
	w.kubectl(t, "rollout", "restart", "deployment/web")
	w.converged(t, 10)
	managers(t.Context(), t, w.c1, 2)
	if reason := lost(); reason != "" {
		t.Errorf("c2 was lost: %s", reason)
	}
	if err := delegates.doubled(); err != nil {
		t.Error(err)
	}
}

// credentials returns how long those of a ClusterTarget are valid.
func (w *world) credentials(t *testing.T, name string) v1alpha1.TargetCredentials {
	t.Helper()
	target := &v1alpha1.ClusterTarget{}
	eventually(t, "the manager to say when the token for "+name+" expires", func(ctx context.Context) error {
		if err := w.c1.Get(ctx, client.ObjectKey{Name: name}, target); err != nil {
			return err
		}
		if target.Status.Credentials == nil {
			return errors.New("it does not")
		}
		return nil
	})
	return *target.Status.Credentials
}

// watchConnected observes the condition Connected of a ClusterTarget from now on. The function returned says why the
// target was not connected at some time, or is empty.
func (w *world) watchConnected(t *testing.T, name string) func() string {
	t.Helper()
	events, err := w.c1.Watch(t.Context(), &v1alpha1.ClusterTargetList{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	var lost atomic.Pointer[string]
	go func() {
		for event := range events.ResultChan() {
			target, ok := event.Object.(*v1alpha1.ClusterTarget)
			if !ok || target.Name != name || event.Type == watch.Deleted {
				continue
			}
			if meta.IsStatusConditionFalse(target.Status.Conditions, v1alpha1.ConditionConnected) {
				reason := fmt.Sprintf("%+v", target.Status.Conditions)
				lost.CompareAndSwap(nil, &reason)
			}
		}
	}()
	return func() string {
		if reason := lost.Load(); reason != nil {
			return *reason
		}
		return ""
	}
}
