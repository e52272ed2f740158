//go:build e2e && long

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// killRounds is the number of times that each operation is interrupted.
const killRounds = 5

func TestAManagerKilledAtAnyMomentLosesAndDoublesNoPod(t *testing.T) {
	for name, test := range map[string]struct {
		// begin starts an operation that takes some time, and returns the number of pods at its end.
		begin func(t *testing.T, w *world, round int) (pods int)
		// finish is called when these pods exist.
		finish func(t *testing.T, w *world)
	}{
		"during a roll-out": {begin: func(t *testing.T, w *world, _ int) int {
			t.Helper()
			w.kubectl(t, "rollout", "restart", "deployment/web")
			return 12
		}},
		"during scaling down and up": {begin: func(t *testing.T, w *world, round int) int {
			t.Helper()
			pods := 12 - 9*(round%2)
			w.kubectl(t, "scale", "deployment/web", fmt.Sprintf("--replicas=%d", pods))
			return pods
		}},
		"during a drain": {begin: func(t *testing.T, w *world, _ int) int {
			t.Helper()
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				_, _ = runKubectl(t.Context(), "--context", "c1", "drain", "admiralty-c2",
					"--pod-selector", "app=web", "--ignore-daemonsets", "--timeout=2m")
			}()
			t.Cleanup(func() { <-drained })
			return 12
		}, finish: func(t *testing.T, w *world) {
			t.Helper()
			w.kubectl(t, "uncordon", "admiralty-c2")
			w.kubectl(t, "rollout", "restart", "deployment/web")
			w.kubectl(t, "rollout", "status", "deployment/web", "--timeout=2m")
			w.quiet(t, 12)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := setUp(t)
			w.endWell(t)
			t.Cleanup(func() {
				_, _ = runKubectl(context.WithoutCancel(t.Context()), "--context", "c1", "uncordon", "admiralty-c2")
			})
			delegates := w.logDelegates(t)
			create(t, w.c1, w.webServer(12))
			w.quiet(t, 12)
			for round := range killRounds {
				pods := test.begin(t, w, round)
				moment := time.NewTimer(rand.N(6 * time.Second)) // The kill comes at a random moment.
				<-moment.C
				w.killLeader(t)
				start := time.Now()
				w.converged(t, pods)
				t.Logf("round %d: settled %s after the kill", round, time.Since(start).Round(time.Second))
				managers(t.Context(), t, w.c1, 2)
				if test.finish != nil {
					test.finish(t, w)
				}
				if err := delegates.doubled(); err != nil {
					t.Fatal(err)
				}
			}
			w.kubectl(t, "delete", "deployment", "web")
			w.nothingLeft(t)
		})
	}
}

// converged waits until the Deployment has reached its desired state, and every proxy has exactly one delegate.
func (w *world) converged(t *testing.T, pods int) {
	t.Helper()
	w.kubectl(t, "rollout", "status", "deployment/web", "--timeout=4m")
	w.quiet(t, pods)
}

// A manager that stalls while another takes over must do no harm when it continues.
func TestAManagerThatStallsLosesAndDoublesNoPod(t *testing.T) {
	w := setUp(t)
	w.endWell(t)
	delegates := w.logDelegates(t)
	create(t, w.c1, w.webServer(12))
	w.quiet(t, 12)

	stalled := w.leader(t)
	w.kubectl(t, "rollout", "restart", "deployment/web")
	moment := time.NewTimer(rand.N(3 * time.Second)) // The signal comes at a random moment.
	<-moment.C
	signal(t, stalled, syscall.SIGSTOP)
	eventually(t, "another leader", func(context.Context) error {
		if leader := w.leader(t); leader.UID == stalled.UID {
			return fmt.Errorf("%s leads", leader.Name)
		}
		return nil
	})
	signal(t, stalled, syscall.SIGCONT)
	w.converged(t, 12)
	managers(t.Context(), t, w.c1, 2)
	w.quiet(t, 12)
	if err := delegates.doubled(); err != nil {
		t.Error(err)
	}
}
