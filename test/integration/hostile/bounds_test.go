package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/hostile"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const summaryPath = "/apis/multicluster.admiralty.io/v1alpha1/clustersummaries/" + v1alpha1.ClusterSummaryName

func TestABombIsRefusedOnEveryPath(t *testing.T) {
	item := `{"metadata":{"name":"` + strings.Repeat("a", 1<<10) + `"}},`
	for name, test := range map[string]struct {
		misbehave    hostile.Misbehaviour
		reason, text string
	}{
		"version": {func(w http.ResponseWriter, r *http.Request) bool {
			if hostile.IsPath(r, "/version") {
				hostile.Bomb(w, http.StatusOK)
			}
			return hostile.IsPath(r, "/version")
		}, v1alpha1.ReasonOverBudget, "an object of more than 3 MiB"},
		"summary": {func(w http.ResponseWriter, r *http.Request) bool {
			if hostile.IsPath(r, summaryPath) {
				hostile.Bomb(w, http.StatusOK)
			}
			return hostile.IsPath(r, summaryPath)
		}, v1alpha1.ReasonOverBudget, "an object of more than 3 MiB"},
		"errors": {func(w http.ResponseWriter, _ *http.Request) bool {
			hostile.Bomb(w, http.StatusInternalServerError)
			return true
		}, v1alpha1.ReasonUnreachable, "status 500 Internal Server Error"},
		"text of an error": {func(w http.ResponseWriter, _ *http.Request) bool {
			hostile.Bomb(w, http.StatusForbidden)
			return true
		}, v1alpha1.ReasonForbidden, "ClusterSource or Source"},
		"watches": {func(w http.ResponseWriter, r *http.Request) bool {
			if hostile.IsWatch(r, "podchaperons") {
				hostile.Bomb(w, http.StatusOK)
			}
			return hostile.IsWatch(r, "podchaperons")
		}, v1alpha1.ReasonOverBudget, "an object of more than 3 MiB"},
		"lists, endless": {func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case hostile.IsWatch(r, "podchaperons"): // as an old API server, which cannot watch from the beginning
				w.WriteHeader(http.StatusUnprocessableEntity)
			case hostile.IsList(r, "podchaperons"):
				hostile.SendJSON(w, `{"kind":"PodChaperonList","apiVersion":"multicluster.admiralty.io/v1alpha1",`+
					`"items":[`)
				hostile.Forever(w, r, strings.Repeat(item, 1<<10))
			default:
				return false
			}
			return true
		}, v1alpha1.ReasonOverBudget, "a list of more than 21000 objects"},
		"lists, an endless item": {func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case hostile.IsWatch(r, "podchaperons"):
				w.WriteHeader(http.StatusUnprocessableEntity)
			case hostile.IsList(r, "podchaperons"):
				hostile.SendJSON(w, `{"kind":"PodChaperonList","apiVersion":"multicluster.admiralty.io/v1alpha1",`+
					`"items":[{"metadata":{"finalizers":["`)
				hostile.Forever(w, r, strings.Repeat(`","`, 1<<18))
			default:
				return false
			}
			return true
		}, v1alpha1.ReasonOverBudget, "an object of more than 3 MiB"},
		"strings in place of containers": {func(w http.ResponseWriter, r *http.Request) bool {
			if hostile.IsWatch(r, "podchaperons") {
				chaperon := `{"kind":"PodChaperon","apiVersion":"multicluster.admiralty.io/v1alpha1",` +
					`"metadata":{"name":"a"},"spec":{"containers":["` + strings.Repeat(`","`, 900_000) + `"]}}`
				hostile.SendJSON(w, fmt.Sprintf(hostile.Invented, "ADDED", chaperon))
			}
			return hostile.IsWatch(r, "podchaperons")
		}, v1alpha1.ReasonOverBudget, "an object with more than 125000 elements"},
		"initial events, endless": {func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case hostile.IsWatch(r, "podchaperons"):
				many := `{"kind":"PodChaperon","apiVersion":"multicluster.admiralty.io/v1alpha1",` +
					`"metadata":{"name":"a","resourceVersion":"1"},"x":[0` + strings.Repeat(",0", 100_000) + `]}`
				hostile.Forever(w, r, fmt.Sprintf(hostile.Invented, "ADDED", many))
			case r.URL.Query().Get("limit") == "1": // Whether PodChaperons may be read everywhere is answered.
				return false
			case hostile.IsList(r, "podchaperons"): // After such a watch, client-go would take an honest list.
				w.WriteHeader(http.StatusInternalServerError)
			default:
				return false
			}
			return true
		}, v1alpha1.ReasonOverBudget, "a list with more than"},
		"an endless body": {func(w http.ResponseWriter, r *http.Request) bool {
			hostile.Forever(w, r, strings.Repeat(" ", 1<<20))
			return true
		}, v1alpha1.ReasonOverBudget, "an object of more than 3 MiB"},
		"an endless header": {func(w http.ResponseWriter, _ *http.Request) bool {
			for i := range 1000 {
				w.Header().Add(fmt.Sprintf("X-%d", i), strings.Repeat("a", 1<<10))
			}
			return true
		}, v1alpha1.ReasonUnreachable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.Misbehave(test.misbehave)
			stop := watchHeap(t)
			waitForReason(t, connect(t, s), test.reason, test.text)
			stop()
		})
	}
}

func TestRedirectsAreRefused(t *testing.T) {
	var followed atomic.Bool
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	t.Cleanup(other.Close)
	s := newServer(t)
	s.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	waitForReason(t, connect(t, s), v1alpha1.ReasonUnreachable, "answers with a redirect")
	if followed.Load() {
		t.Error("a redirect was followed")
	}
}

func TestAWatchEventOf100MBEndsThatWatchOnly(t *testing.T) {
	s := newServer(t)
	key := connect(t, s)
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
	was := engagedTarget(t, key)
	var sent atomic.Int32
	costsOthersNothing(t, func() {
		s.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
			if !hostile.IsWatch(r, "podchaperons") || sent.Add(1) > 1 {
				return false
			}
			hostile.Event(w, 100<<20)
			return true
		})
		env.Eventually(t, func(context.Context) error {
			if sent.Load() < 2 {
				return errors.New("the watch has not begun anew")
			}
			return nil
		})
	})
	namespace := env.Namespace(t, nil, c2)
	chaperon := inventedChaperon(t, namespace, "later", key)
	env.CreateForTest(t, c2, chaperon)
	env.Eventually(t, func(ctx context.Context) error { return cached(ctx, was, chaperon) })
	if engagedTarget(t, key) != was {
		t.Error("the target was engaged anew")
	}
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
}

func TestOverBudgetDisconnectsThatTargetOnly(t *testing.T) {
	s := newServer(t)
	key := connect(t, s)
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
	costsOthersNothing(t, func() {
		s.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
			if hostile.IsWatch(r, "podchaperons") {
				hostile.Event(w, 100<<20)
			}
			return hostile.IsWatch(r, "podchaperons")
		})
		waitForReason(t, key, v1alpha1.ReasonOverBudget, "an object of more than 3 MiB")
		if _, engaged := registry.ByKey(key); engaged { // Later it is engaged and disconnected again and again.
			t.Error("the target is still engaged")
		}
	})
	expectMetric(t, key, 1)
	s.Behave()
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
	expectMetric(t, key, 0)
}

// expectMetric waits until the metric says whether a target is over its budget.
func expectMetric(t *testing.T, key types.NamespacedName, want float64) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		families, err := metrics.Gather()
		if err != nil {
			return err
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == "multicluster_scheduler_target_over_budget" &&
					m.GetLabel()[0].GetValue() == key.Name && m.GetGauge().GetValue() == want {
					return nil
				}
			}
		}
		return fmt.Errorf("no metric of %s is %v", key.Name, want)
	})
}

func TestMoreObjectsThanATargetMayHaveDisconnectIt(t *testing.T) {
	s := newServer(t)
	key := connect(t, s)
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
	costsOthersNothing(t, func() {
		sent := s.inventChaperons(func(name string) *v1alpha1.PodChaperon {
			return inventedChaperon(t, metav1.NamespaceDefault, name, key)
		})
		waitUntilSent(t, sent, 18_000)
		waitForReason(t, key, v1alpha1.ReasonOverBudget, "21000 objects")
	})
}

func TestForgedPodChaperonsAreNotKept(t *testing.T) {
	s := newServer(t)
	key := connect(t, s)
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
	forged := inventedChaperon(t, metav1.NamespaceDefault, "forged", key)
	delete(forged.Annotations, v1alpha1.AnnotationProof)
	forged.Spec = corev1.PodSpec{}
	costsOthersNothing(t, func() {
		sent := s.inventChaperons(func(name string) *v1alpha1.PodChaperon {
			forged.Name, forged.UID = name, types.UID(name)
			return forged
		})
		waitUntilSent(t, sent, forgeries)
	})
	kept := &v1alpha1.PodChaperonList{}
	env.Must(t, engagedTarget(t, key).Client.List(t.Context(), kept))
	if len(kept.Items) > 0 {
		t.Errorf("%d forged PodChaperons are kept", len(kept.Items))
	}
}

// waitUntilSent waits until a server has sent all PodChaperons. Machines may be slow, so the next 500 have a minute.
func waitUntilSent(t *testing.T, sent *atomic.Int64, all int64) {
	t.Helper()
	for want := int64(500); want <= all; want += 500 {
		env.Eventually(t, func(context.Context) error {
			if n := sent.Load(); n < want {
				return fmt.Errorf("the manager has read %d of %d PodChaperons", n, want)
			}
			return nil
		})
	}
}

// inventChaperons lets the server add PodChaperons to watches without end. It returns how many it has sent.
func (s *server) inventChaperons(one func(name string) *v1alpha1.PodChaperon) *atomic.Int64 {
	sent := &atomic.Int64{}
	added := func(chaperon *v1alpha1.PodChaperon) string {
		chaperon.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodChaperon"}
		chaperon.ResourceVersion = fmt.Sprint(sent.Load() + 1)
		object, err := json.Marshal(chaperon)
		if err != nil {
			panic(err)
		}
		return fmt.Sprintf(hostile.Invented, "ADDED", object)
	}
	s.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if !hostile.IsWatch(r, "podchaperons") {
			return false
		}
		for part := hostile.Listed; r.Context().Err() == nil && hostile.SendJSON(w, part); {
			part = ""
			for range 100 {
				part += added(one(fmt.Sprintf("a%d", sent.Add(1))))
			}
		}
		return true
	})
	return sent
}

func TestASlowTargetCostsOthersNothing(t *testing.T) {
	var attacks []func()
	servers := map[types.NamespacedName]*server{}
	for name, slow := range map[string]func(w http.ResponseWriter, r *http.Request){
		"one-byte-a-second": hostile.Dribble,
		"no-answer":         func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		s := newServer(t)
		key := lead(t, c1, name, s.Login)
		waitForReason(t, key, v1alpha1.ReasonConnected, "")
		attacks = append(attacks, func() {
			s.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
				slow(w, r)
				return true
			})
			waitForReason(t, key, v1alpha1.ReasonUnreachable, "too long")
		})
		servers[key] = s
	}
	costsOthersNothing(t, attacks...)
	for key, s := range servers {
		s.Behave()
		waitForReason(t, key, v1alpha1.ReasonConnected, "")
	}
}

func TestWatchesLiveOn(t *testing.T) {
	s := newServer(t)
	key := connect(t, s)
	waitForReason(t, key, v1alpha1.ReasonConnected, "")
	was := engagedTarget(t, key)
	namespace := env.Namespace(t, nil, c2)
	for i := range 5 {
		chaperon := inventedChaperon(t, namespace, fmt.Sprintf("a%d", i), key)
		env.CreateForTest(t, c2, chaperon)
		env.Eventually(t, func(ctx context.Context) error { return cached(ctx, was, chaperon) })
	}
	// One list is for PodChaperons of targets that are gone.
	if began := len(s.requests.With("podchaperons?")); began > 3 {
		t.Errorf("PodChaperons were listed or watched %d times", began)
	}
}

// cached returns an error unless an object is in the target's cache.
func cached(ctx context.Context, in *engage.Target, object *v1alpha1.PodChaperon) error {
	err := in.Client.Get(ctx, client.ObjectKeyFromObject(object), &v1alpha1.PodChaperon{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is not in the cache", object.Name)
	}
	return err
}

func TestTextsOfATargetAreShortened(t *testing.T) {
	s := newServer(t)
	s.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if hostile.IsPath(r, "/version") {
			s.Alter(w, r, func(answer map[string]any) {
				answer["gitVersion"] = "v1\x1b[31m\n" + strings.Repeat("a", 1<<20)
			})
		}
		return hostile.IsPath(r, "/version")
	})
	key := connect(t, s)
	waitForReason(t, key, v1alpha1.ReasonConnected, ", Kubernetes v1[31m aaa")
	found := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	env.Get(t, c1, found)
	if version := found.Status.KubernetesVersion; len(version) > 64 {
		t.Errorf("the version has %d bytes", len(version))
	}
}
