package hostile

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestTenThousandNodeClassesAreNotRead(t *testing.T) {
	s := newServer(t)
	key := connect(t, s)
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
	classes := make([]any, 10_000)
	for i := range classes {
		classes[i] = map[string]any{"nodes": 1}
	}
	costsOthersNothing(t, func() {
		s.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
			if isPath(r, summaryPath) {
				s.alter(w, r, func(summary map[string]any) {
					summary["status"] = map[string]any{"nodes": 1, "classes": classes}
				})
			}
			return isPath(r, summaryPath)
		})
		waitForReason(t, key, v1alpha1.ReasonInvalidSummary, "10000 node classes")
	})
	kept := &v1alpha1.ClusterSummary{}
	name := types.NamespacedName{Name: v1alpha1.ClusterSummaryName}
	env.Must(t, engagedTarget(t, key).Client.Get(t.Context(), name, kept))
	if len(kept.Status.Classes) > 1 {
		t.Errorf("%d node classes are kept", len(kept.Status.Classes))
	}
	s.behave()
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
}

func TestRedirectsOfAConnectedTargetCostOthersNothing(t *testing.T) {
	var followed atomic.Bool
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	t.Cleanup(other.Close)
	s := newServer(t)
	key := connect(t, s)
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
	costsOthersNothing(t, func() {
		s.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusMovedPermanently)
			return true
		})
		waitForReason(t, key, v1alpha1.ReasonUnreachable, "")
	})
	if followed.Load() {
		t.Error("a redirect was followed")
	}
	s.behave()
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
}
