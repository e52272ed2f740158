//go:build long

package slow

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// So many pods are created for a target that refuses each, if the machine can: two cores refused 25 a second.
const (
	refusedPerSecond = 50
	refusedPods      = 10 * refusedPerSecond
)

// The control group gets as many pods, which go to no node, because the work of API servers counts, too.
func TestPodsThatATargetRefusesAllTheTimeCostOthersNothing(t *testing.T) {
	s := newServer(t, "refuses-all")
	s.ready(t)
	s.forget()
	var refused atomic.Int64
	s.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if !refusing(w, r) {
			return false
		}
		refused.Add(1)
		return true
	})
	during, end := context.WithCancel(t.Context())
	travelled := pods.travel(during, t)
	began := time.Now()
	var creating errgroup.Group
	creating.Go(func() error { return createEvenly(t.Context(), c1, translate.VirtualNodeName(s.key)) })
	creating.Go(func() error { return createEvenly(t.Context(), control, "none") })
	env.Must(t, creating.Wait())
	waittest.Eventually(t, "each pod to be refused", func() bool { return refused.Load() >= refusedPods })
	t.Logf("%.1f refusals a second", float64(refused.Load())/time.Since(began).Seconds())
	travelled.waitForEnough(t)
	end()
	travelled.expectAsFast(t)
	history, writes, _, _ := s.seen(t)
	states := strings.Join(history, "\n")
	for _, doubt := range []string{"Connected=False", "Ready=False", "Responsive=False/Failing"} {
		if strings.Contains(states, doubt) {
			t.Errorf("a target that refuses pods has %s", doubt)
		}
	}
	if writes > 10 {
		t.Errorf("the status was written %d times", writes)
	}
}

// createEvenly creates pods that may go to one node only.
func createEvenly(ctx context.Context, in *env.Cluster, node string) error {
	ticker := time.NewTicker(time.Second / refusedPerSecond)
	defer ticker.Stop()
	for range refusedPods {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		proxy := pods.proxy(node)
		proxy.Labels = map[string]string{"app": "refused"}
		if err := in.Client.Create(ctx, proxy); err != nil {
			return err
		}
	}
	return nil
}
