package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/hostile"
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
		s.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
			if hostile.IsPath(r, summaryPath) {
				s.Alter(w, r, func(summary map[string]any) {
					summary["status"] = map[string]any{"nodes": 1, "classes": classes}
				})
			}
			return hostile.IsPath(r, summaryPath)
		})
		waitForReason(t, key, v1alpha1.ReasonInvalidSummary, "10000 node classes")
	})
	kept := &v1alpha1.ClusterSummary{}
	name := types.NamespacedName{Name: v1alpha1.ClusterSummaryName}
	env.Must(t, engagedTarget(t, key).Client.Get(t.Context(), name, kept))
	if len(kept.Status.Classes) > 1 {
		t.Errorf("%d node classes are kept", len(kept.Status.Classes))
	}
	s.Behave()
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
}

func TestAmountsCannotEndTheProcess(t *testing.T) {
	var attacks []func()
	servers := map[*engage.Target]*server{}
	for i, amount := range []string{"10000000000000000001e2147483639", "1e-999999999", "1e1999999998"} {
		s := newServer(t)
		key := lead(t, c1, fmt.Sprint("costly", i), s.Login)
		waitForReason(t, key, v1alpha1.ReasonConnected, "")
		was := engagedTarget(t, key)
		attacks = append(attacks, func() { s.sendAmount(t, was, amount) })
		servers[was] = s
	}
	costsOthersNothing(t, attacks...)
	for was, s := range servers {
		s.Behave()
		waitForReason(t, was.Key, v1alpha1.ReasonConnected, "")
		if engagedTarget(t, was.Key) != was {
			t.Errorf("%s was engaged anew", was.Key)
		}
	}
}

// sendAmount sends an amount in PodChaperons and in the ClusterSummary, until both were read.
func (s *server) sendAmount(t *testing.T, to *engage.Target, amount string) {
	t.Helper()
	chaperon := inventedChaperon(t, metav1.NamespaceDefault, "costly", to.Key)
	costly := eventWith(t, chaperon, amount)
	var summaries atomic.Int64
	s.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case hostile.IsPath(r, summaryPath):
			s.Alter(w, r, func(summary map[string]any) { summary["capacity"] = map[string]any{"cpu": amount} })
			summaries.Add(1)
		case hostile.IsWatch(r, "podchaperons"):
			hostile.SendJSON(w, costly+hostile.Listed)
			<-r.Context().Done()
		default:
			return false
		}
		return true
	})
	env.Eventually(t, func(ctx context.Context) error { return cached(ctx, to, chaperon) })
	env.Eventually(t, func(context.Context) error {
		if summaries.Load() < 2 {
			return errors.New("the ClusterSummary was not read")
		}
		return nil
	})
}

// eventWith returns the event that a PodChaperon was added, whose container requests an amount.
func eventWith(t *testing.T, chaperon *v1alpha1.PodChaperon, amount string) string {
	t.Helper()
	const mark = "7777"
	chaperon.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodChaperon"}
	chaperon.ResourceVersion = "1"
	chaperon.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(mark)}
	object, err := json.Marshal(chaperon)
	env.Must(t, err)
	if !strings.Contains(string(object), strconv.Quote(mark)) {
		t.Fatalf("no amount is in %s", object)
	}
	costly := strings.Replace(string(object), strconv.Quote(mark), strconv.Quote(amount), 1)
	return fmt.Sprintf(hostile.Invented, "ADDED", costly)
}

func TestRedirectsOfAConnectedTargetCostOthersNothing(t *testing.T) {
	var followed atomic.Bool
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	t.Cleanup(other.Close)
	s := newServer(t)
	key := connect(t, s)
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
	costsOthersNothing(t, func() {
		s.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusMovedPermanently)
			return true
		})
		waitForReason(t, key, v1alpha1.ReasonUnreachable, "")
	})
	if followed.Load() {
		t.Error("a redirect was followed")
	}
	s.Behave()
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
}
