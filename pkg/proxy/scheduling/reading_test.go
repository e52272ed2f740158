package scheduling

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
)

// partly is the cache of a target that does not let the source read all namespaces.
type partly struct {
	*informertest.FakeInformers

	mu     sync.Mutex // guards the field below
	listed sets.Set[string]
}

func (p *partly) Listed(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listed.Has(namespace)
}

func (p *partly) list(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed.Insert(namespace)
}

// engagePartly engages a target that refuses all namespaces but those that are listed.
func (w *world) engagePartly(
	ctx context.Context, t *testing.T, change func(*engage.Target), listed ...string,
) *partly {
	t.Helper()
	engaged := schedulingtest.Engage(t, w.registry, "c1", interceptor.Funcs{})
	of := &partly{
		FakeInformers: &informertest.FakeInformers{Scheme: engaged.Client.Scheme()}, listed: sets.New(listed...),
	}
	engaged.Cache = of
	change(engaged)
	s := &Scheduler{plugin: w.plugin, clock: w.clock, clusterID: "source", engaged: make(chan struct{}, 1)}
	if err := s.Engaged(ctx, engaged); err != nil {
		t.Fatal(err)
	}
	return of
}

// waitsFor says whether the pod waits for a target that may have its delegate.
func (w *world) waitsFor(t *testing.T, pod *corev1.Pod, name string) bool {
	t.Helper()
	_, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
	if !status.IsSuccess() && !strings.Contains(status.Message(), "waits for "+name+", where an earlier manager") {
		t.Fatalf("status is %v", status)
	}
	return !status.IsSuccess()
}

func TestANewLeaderWaitsForATargetThatRefusesTheNamespaceOfAnUnboundPod(t *testing.T) {
	asBefore := func(*engage.Target) {}
	says := func(nothing bool, confirmed error) func(*engage.Target) {
		return func(target *engage.Target) {
			target.FindsNothing = func(namespace string) bool { return nothing && namespace == "default" }
			target.Confirms = func(context.Context) error { return confirmed }
		}
	}
	// planned waits for the next look to be planned. The end of the pod's patience is planned, too.
	planned := func(t *testing.T, w *world) {
		t.Helper()
		eventually(t, "the next look is planned", func() bool { return w.clock.Waiters() == 2 })
	}
	for name, test := range map[string]struct {
		target  func(*engage.Target)
		listed  []string
		happens func(t *testing.T, w *world, of *partly)
		// It waits after that, or is woken before.
		waits, woken bool
	}{
		"it does not refuse this one": {target: asBefore, listed: []string{"default"}},
		"it refuses it":               {target: asBefore, listed: []string{"other"}, waits: true},
		"it refuses it for some time": {target: asBefore, happens: func(t *testing.T, w *world, of *partly) {
			t.Helper()
			planned(t, w)
			w.clock.Step(lookInterval)
			planned(t, w)
			of.list("default")
			w.clock.Step(lookInterval)
		}, woken: true},
		"it says that it has nothing there": {target: says(true, nil), woken: true},
		"it does not say so":                {target: says(false, nil), waits: true},
		"it may have said so earlier":       {target: says(true, errors.New("set back")), waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, pods, pod := newWorld(), &playedQueue{}, newPod("p", nil)
			w.waker.started(pods, klog.Background())
			w.withElder(t, pod, clusterTarget("c1", "v1", metav1.ConditionTrue, created))
			of := w.engagePartly(t.Context(), t, test.target, test.listed...)
			c1 := w.targets.get("admiralty-c1")
			if waits := w.waitsFor(t, pod, "c1"); waits != (test.waits || test.woken) {
				t.Errorf("at first, it waits: %t", waits)
			}
			if test.happens != nil {
				test.happens(t, w, of)
			}
			if test.woken { // Once by the engagement.
				eventually(t, "the pod is woken", func() bool { return pods.count(c1) == 2 })
			}
			if test.waits {
				planned(t, w)
				w.clock.Step(lookInterval)
			}
			if waits := w.waitsFor(t, pod, "c1"); waits != test.waits || w.elders.includes(pod) != test.waits {
				t.Errorf("it waits: %t, want %t", waits, test.waits)
			}
			if w.clock.Step(leastPatience); w.waitsFor(t, pod, "c1") {
				t.Error("its patience does not end")
			}
		})
	}
}

func TestANamespaceIsReadInOneEngagementOrAnother(t *testing.T) {
	asBefore := func(*engage.Target) {}
	for name, test := range map[string]struct{ first, second, between string }{
		"in the first":  {"default", "other", "waits for c2, where"},
		"in the second": {"other", "default", "waits for c1, c2, where"},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := newWorld(), newPod("p", nil)
			w.withElder(t, pod,
				clusterTarget("c1", "v1", metav1.ConditionTrue, created),
				clusterTarget("c2", "v1", metav1.ConditionTrue, created))
			waits := func(want string) {
				t.Helper()
				reason, err := w.elders.waits(t.Context(), pod, func() {})
				if !strings.HasPrefix(reason, want) || err != nil {
					t.Errorf("it %s, want %q, error %v", reason, want, err)
				}
			}
			ctx, disengage := context.WithCancel(t.Context())
			w.engagePartly(ctx, t, asBefore, test.first)
			waits(test.between)
			disengage()
			waits(test.between)
			w.engagePartly(t.Context(), t, asBefore, test.second)
			waits("waits for c2, where")
		})
	}
}
