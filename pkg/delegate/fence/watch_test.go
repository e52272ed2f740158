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
	w, clock := newWatch(t, &woken, append(administered("a", "c1", "b", ""),
		asking("due", "c1", "60", corev1.PodStatus{}),
		asking("later", "c1", "3600", corev1.PodStatus{}),
		asking("never", "c1", "", corev1.PodStatus{}),
		asking("malformed", "c1", "soon", corev1.PodStatus{}),
		asking("finished", "c1", "60", corev1.PodStatus{Phase: corev1.PodSucceeded}),
		asking("fenced-already", "c1", "60", fenced),
		asking("of-another", "c2", "60", corev1.PodStatus{}),
	)...)
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
	w, clock := newWatch(t, &woken, administered("a", "c1")...)
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

// TestWhoMayKeepADelegate has users with a Lease that claims the cluster ID of a PodChaperon in namespace default. No
// tenant of another namespace may keep the delegate, or have it run on by taking the right from its source.
func TestWhoMayKeepADelegate(t *testing.T) {
	for name, test := range map[string]struct {
		sources []client.Object
		// rights are the namespaces that the user's SourceGrant names.
		rights []string
		want   bool
	}{
		"a user of a ClusterSource with this ID": {
			[]client.Object{clusterSource("user", "c1")}, []string{"default"}, true,
		},
		"the same, which the namespace was taken from": {
			[]client.Object{clusterSource("user", "c1")}, nil, true,
		},
		"a user of a ClusterSource with another ID": {
			[]client.Object{clusterSource("user", "c2")}, []string{"default"}, false,
		},
		"a user of a ClusterSource without an ID": {
			[]client.Object{clusterSource("user", "")}, []string{"default"}, true,
		},
		"the same, in other namespaces": {
			[]client.Object{clusterSource("user", "")}, []string{"team"}, false,
		},
		"the same, for whom a tenant invents an ID": {
			[]client.Object{clusterSource("user", ""), tenantSource("team", "user", "evil")},
			[]string{"default", "team"}, true,
		},
		"a user of a Source with this ID": {
			[]client.Object{tenantSource("default", "user", "c1")}, []string{"default"}, true,
		},
		"a user of a Source without an ID": {
			[]client.Object{tenantSource("default", "user", "")}, []string{"default"}, true,
		},
		"the same, for whom a tenant of another namespace invents an ID": {
			[]client.Object{tenantSource("default", "user", ""), tenantSource("team", "user", "evil")},
			[]string{"default", "team"}, true,
		},
		"a user of a Source with another ID": {
			[]client.Object{tenantSource("default", "user", "c2")}, []string{"default"}, false,
		},
		"the same, for whom a tenant of another namespace claims this ID": {
			[]client.Object{tenantSource("default", "user", "c2"), tenantSource("team", "user", "c1")},
			[]string{"default", "team"}, false,
		},
		"a tenant of another namespace with this ID": {
			[]client.Object{tenantSource("team", "user", "c1")}, []string{"team"}, false,
		},
		"a tenant of another namespace without an ID": {
			[]client.Object{tenantSource("team", "user", "")}, []string{"team"}, false,
		},
		"a user of another ClusterSource": {[]client.Object{clusterSource("other", "c1")}, []string{"default"}, false},
		"nobody's user":                   {nil, []string{"default"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := grant("user", "")
			g.Status.Namespaces = test.rights
			c := asking("web", "c1", "60", corev1.PodStatus{})
			var woken []string
			w, clock := newWatch(t, &woken, append(test.sources, g, c)...)
			w.see(t.Context(), lease("user", "c1", clock.Now()))
			if _, known, err := w.Silent(t.Context(), c); known != test.want || err != nil {
				t.Errorf("known %v, error %v", known, err)
			}
		})
	}
}

// TestATenantKeepsNoDelegatesOfASilentSource has a tenant's user renew all the time with the ID of the source.
func TestATenantKeepsNoDelegatesOfASilentSource(t *testing.T) {
	liar := grant("liar", "c1")
	liar.Status.Namespaces = []string{"team"}
	var woken []string
	w, clock := newWatch(t, &woken, append(administered("a", "c1"),
		liar, tenantSource("team", "liar", "c1"), asking("due", "c1", "60", corev1.PodStatus{}))...)
	start := clock.Now()
	w.see(t.Context(), lease("a", "c1", start))
	for clock.Since(start) < 2*timeouts.FenceLeast {
		clock.SetTime(clock.Now().Add(timeouts.PresenceRenewal))
		w.see(t.Context(), lease("liar", "c1", clock.Now()))
		w.see(t.Context(), lease(v1alpha1.LeaseManager, "", clock.Now()))
	}
	if got := slices.Compact(woken); !slices.Equal(got, []string{"due"}) {
		t.Errorf("woken: %v, want due", got)
	}
	if diff := cmp.Diff(map[string]float64{"c1": 120}, silences(t, w.metrics)); diff != "" {
		t.Errorf("seconds (-want +got):\n%s", diff)
	}
}

func TestAGrantThatCannotBeReadIsAnError(t *testing.T) {
	var woken []string
	w, clock := newWatch(t, &woken)
	w.options.Client = failing{w.options.Client}
	w.see(t.Context(), lease("own", "c1", clock.Now()))
	if _, _, err := w.Silent(t.Context(), asking("web", "c1", "60", corev1.PodStatus{})); err == nil {
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
	w, clock := newWatch(t, &woken, administered("a", "c1", "b", "", "other", "c2")...)
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
	if err := w.options.Client.(client.Client).Delete(t.Context(), &v1alpha1.SourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
	}); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(timeouts.PresenceRenewal))
	w.see(t.Context(), lease("b", "c2", clock.Now()))
	w.see(t.Context(), lease(v1alpha1.LeaseManager, "", clock.Now()))
	expect(map[string]float64{"c2": 0})
	if _, known := w.observer.Silent("c1", func(string) bool { return true }); known {
		t.Error("a source without rights is remembered")
	}
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

// administered returns users and their ClusterSources, which select the namespace default. The arguments are the users,
// each with its cluster ID.
func administered(users ...string) []client.Object {
	var all []client.Object
	for of := range slices.Chunk(users, 2) {
		g := grant(of[0], of[1])
		g.Status.Namespaces = []string{"default"}
		if of[1] != "" {
			g.Status.Withheld = &v1alpha1.WithheldNamespaces{}
		}
		all = append(all, g, clusterSource(of[0], of[1]))
	}
	return all
}

// grant is the SourceGrant of a user. It has the user's name, as the Lease has.
func grant(user, clusterID string) *v1alpha1.SourceGrant {
	return &v1alpha1.SourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Spec: v1alpha1.SourceGrantSpec{UserName: user},
		Status: v1alpha1.SourceGrantStatus{ClusterID: clusterID},
	}
}

func clusterSource(user, clusterID string) *v1alpha1.ClusterSource {
	return &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Spec:       v1alpha1.ClusterSourceSpec{UserName: user, ClusterID: clusterID},
	}
}

func tenantSource(namespace, user, clusterID string) *v1alpha1.Source {
	return &v1alpha1.Source{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
		Spec:       v1alpha1.SourceSpec{UserName: user, ClusterID: clusterID},
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
