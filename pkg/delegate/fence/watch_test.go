package fence

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

func TestOnlyDelegatesThatAreDueAreWoken(t *testing.T) {
	fenced := corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: v1alpha1.ConditionDelegate, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonDelegateFenced,
	}}}
	var woken []string
	w, clock := newWatch(t, &woken,
		grant("a", "c1"), grant("b", ""),
		asking("due", "c1", "60", corev1.PodStatus{}),
		asking("later", "c1", "3600", corev1.PodStatus{}),
		asking("never", "c1", "", corev1.PodStatus{}),
		asking("malformed", "c1", "soon", corev1.PodStatus{}),
		asking("finished", "c1", "60", corev1.PodStatus{Phase: corev1.PodSucceeded}),
		asking("fenced-already", "c1", "60", fenced),
		asking("of-another", "c2", "60", corev1.PodStatus{}),
	)
	start := clock.Now()
	w.see(t.Context(), lease("a", "c1", start))
	w.see(t.Context(), lease("b", "c2", start))
	for clock.Since(start) < 2*timeouts.FenceLeast {
		clock.SetTime(clock.Now().Add(timeouts.PresenceRenewal))
		w.see(t.Context(), lease("b", "c2", clock.Now()))
		w.see(t.Context(), lease(v1alpha1.LeaseManager, "", clock.Now()))
		if clock.Since(start) < timeouts.FenceLeast && len(woken) > 0 {
			t.Fatalf("%v after %s", woken, clock.Since(start))
		}
	}
	if got := slices.Compact(woken); !slices.Equal(got, []string{"due"}) {
		t.Errorf("woken: %v, want due alone", got)
	}
}

// TestPodChaperonsAreListedOnlyOfSilentSources counts the lists: they cost something in each target, every ten seconds.
func TestPodChaperonsAreListedOnlyOfSilentSources(t *testing.T) {
	var woken []string
	w, clock := newWatch(t, &woken, grant("a", "c1"))
	lists := &counting{Reader: w.options.Client}
	w.options.Client = lists
	start := clock.Now()
	w.see(t.Context(), lease("a", "c1", start))
	w.see(t.Context(), lease(v1alpha1.LeaseManager, "", start))
	for clock.Since(start) < timeouts.FenceLeast {
		if lists.lists > 0 {
			t.Fatalf("a list after %s", clock.Since(start))
		}
		clock.SetTime(clock.Now().Add(timeouts.PresenceRenewal))
		w.see(t.Context(), lease(v1alpha1.LeaseManager, "", clock.Now()))
	}
	if silent := clock.Since(start); silent != timeouts.FenceLeast || lists.lists != 1 {
		t.Errorf("%d lists after %s", lists.lists, silent)
	}
}

// counting counts lists.
type counting struct {
	client.Reader

	lists int
}

func (c *counting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.lists++
	return c.Reader.List(ctx, list, options...)
}

func TestWhoMayClaimAClusterID(t *testing.T) {
	var woken []string
	w, clock := newWatch(t, &woken, grant("own", "c1"), grant("any", ""), grant("other", "c2"))
	for name, want := range map[string]bool{"own": true, "any": true, "other": false, "none": false} {
		w.observer = Observer{}
		w.see(t.Context(), lease(name, "c1", clock.Now()))
		if _, known, err := w.Silent(t.Context(), "c1"); known != want || err != nil {
			t.Errorf("%s: known %v, error %v", name, known, err)
		}
	}
}

func TestAGrantThatCannotBeReadIsAnError(t *testing.T) {
	var woken []string
	w, clock := newWatch(t, &woken)
	w.options.Client = failing{w.options.Client}
	w.see(t.Context(), lease("own", "c1", clock.Now()))
	if _, _, err := w.Silent(t.Context(), "c1"); err == nil {
		t.Error("no error")
	}
}

// failing reads nothing.
type failing struct{ client.Reader }

func (failing) Get(
	_ context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption,
) error {
	return errors.New("down")
}

func TestTheSilenceOfSourcesIsAMetric(t *testing.T) {
	var woken []string
	w, clock := newWatch(t, &woken, grant("a", "c1"), grant("b", ""), grant("other", "c2"))
	start := clock.Now()
	for _, source := range [][2]string{{"a", "c1"}, {"b", "c2"}, {"other", "liar"}} {
		w.see(t.Context(), lease(source[0], source[1], start))
	}
	for clock.Since(start) < 2*timeouts.FenceLeast {
		clock.SetTime(clock.Now().Add(timeouts.PresenceRenewal))
		w.see(t.Context(), lease("b", "c2", clock.Now()))
		w.see(t.Context(), lease(v1alpha1.LeaseManager, "", clock.Now()))
	}
	expect := func(want map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(want, silences(t, w.metrics)); diff != "" {
			t.Errorf("seconds (-want +got):\n%s", diff)
		}
	}
	expect(map[string]float64{"c1": 120, "c2": 0})
	w.observer.Forget("a")
	clock.SetTime(clock.Now().Add(timeouts.PresenceRenewal))
	w.see(t.Context(), lease("b", "c2", clock.Now()))
	w.see(t.Context(), lease(v1alpha1.LeaseManager, "", clock.Now()))
	expect(map[string]float64{"c2": 0})
}

// silences returns for how many seconds sources are silent, as the metric shows it.
func silences(t *testing.T, m *metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(m.silent); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			shown[series.GetLabel()[0].GetValue()] = series.GetGauge().GetValue()
		}
	}
	return shown
}

func newWatch(
	t *testing.T, woken *[]string, objects ...client.Object,
) (*Watch, *clocktesting.FakePassiveClock) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	return New(Options{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		Wake:   func(key types.NamespacedName) { *woken = append(*woken, key.Name) },
		Clock:  clock, Logger: testr.New(t),
	}), clock
}

func grant(name, clusterID string) *v1alpha1.SourceGrant {
	return &v1alpha1.SourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.SourceGrantStatus{ClusterID: clusterID},
	}
}

func asking(name, clusterID, fence string, status corev1.PodStatus) *v1alpha1.PodChaperon {
	return &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name,
			Labels:      map[string]string{v1alpha1.LabelParentClusterID: clusterID},
			Annotations: map[string]string{v1alpha1.AnnotationFenceAfter: fence},
		},
		Status: status,
	}
}
