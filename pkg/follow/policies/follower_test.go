package policies

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// world is a Follower with the proxies and policies of a source that has the targets c1, which is the source itself,
// and c2.
type world struct {
	*Follower
	c1, c2   *engage.Target
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	looks    int // how often the API server was asked for proxies
}

func newWorld(t *testing.T, pods ...client.Object) *world {
	t.Helper()
	w := &world{
		c1:       &engage.Target{Key: types.NamespacedName{Name: "c1"}, NodeName: "admiralty-c1", Itself: true},
		c2:       &engage.Target{Key: types.NamespacedName{Name: "c2"}, NodeName: "admiralty-c2"},
		clock:    clocktesting.NewFakePassiveClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)),
		recorder: events.NewFakeRecorder(1000),
	}
	scheduler := func(o client.Object) []string {
		pod, _ := o.(*corev1.Pod)
		return []string{pod.Spec.SchedulerName}
	}
	server := fake.NewClientBuilder().WithObjects(pods...).WithIndex(&corev1.Pod{}, "spec.schedulerName", scheduler)
	asked := server.WithInterceptorFuncs(interceptor.Funcs{
		List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			w.looks++
			return c.List(ctx, list, options...)
		},
	}).Build()
	var err error
	w.Follower, err = New(Options{
		Config:    &rest.Config{},
		Proxies:   fake.NewClientBuilder().WithObjects(pods...).Build(),
		APIReader: asked,
		TargetOf: func(node string) (*engage.Target, bool) {
			target, ok := map[string]*engage.Target{w.c1.NodeName: w.c1, w.c2.NodeName: w.c2}[node]
			return target, ok
		},
		Source: translate.Source{ClusterID: "source-id"}, Clock: w.clock, Recorder: w.recorder,
		Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// policyOf returns a policy of this name that selects the pods of an app, or all pods without app.
func policyOf(app string, changes ...func(*networkingv1.NetworkPolicy)) *networkingv1.NetworkPolicy {
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "policy-" + app, UID: types.UID("uid-" + app)},
	}
	if app != "" {
		policy.Spec.PodSelector.MatchLabels = map[string]string{"app": app}
	}
	for _, change := range changes {
		change(policy)
	}
	return policy
}

// proxy returns a proxy of an app, on a node unless its name is empty.
func proxy(name, app, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Labels: map[string]string{"app": app},
			Annotations: map[string]string{
				v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}",
			},
		},
		Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName, NodeName: node},
	}
}

// add plays the watch: a policy is new.
func (w *world) add(t *testing.T, policies ...*networkingv1.NetworkPolicy) {
	t.Helper()
	for _, policy := range policies {
		if err := w.policies.GetIndexer().Add(policy); err != nil {
			t.Fatal(err)
		}
		w.changed(nil, policy)
	}
}

// replace plays the watch: a policy is another. Without after, it is gone.
func (w *world) replace(t *testing.T, before, after *networkingv1.NetworkPolicy) {
	t.Helper()
	err := w.policies.GetIndexer().Delete(before)
	if after == nil {
		w.changed(before, nil)
	} else {
		err = w.policies.GetIndexer().Add(after)
		w.changed(before, after)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// work reconciles everything in the queue once, and returns the policies that have an event, each with its pod.
func (w *world) work(t *testing.T) []string {
	t.Helper()
	for range w.workers.Queue.Len() {
		key, _ := w.workers.Queue.Get()
		if _, err := w.reconcile(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		w.workers.Queue.Done(key)
	}
	var said []string
	for range len(w.recorder.Events) {
		_, text, _ := strings.Cut(<-w.recorder.Events, "such as ")
		pod, _, _ := strings.Cut(text, ":")
		said = append(said, pod)
	}
	return said
}

func TestAPolicyThatSelectsAPodOnItsWayIsReportedOnce(t *testing.T) {
	w := newWorld(t)
	w.add(t, policyOf("web"), policyOf("db"))
	w.work(t)
	w.Placing(proxy("web-0", "web", ""), w.c2)
	w.Placing(proxy("web-1", "web", ""), w.c2)
	if diff := cmp.Diff([]string{"web-0"}, w.work(t)); diff != "" {
		t.Errorf("pods in events (-want, +got):\n%s", diff)
	}
	w.clock.SetTime(w.clock.Now().Add(59 * time.Minute))
	w.Placing(proxy("web-2", "web", ""), w.c2)
	if said := w.work(t); len(said) > 0 {
		t.Errorf("within the hour, there is another event, about %v", said)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.Placing(proxy("web-3", "web", ""), w.c2)
	if diff := cmp.Diff([]string{"web-3"}, w.work(t)); diff != "" {
		t.Errorf("pods in events after an hour (-want, +got):\n%s", diff)
	}
	if w.looks > 0 {
		t.Errorf("the API server was asked %d times, and there are no proxies in the cache", w.looks)
	}
}

func TestPodsThatScheduleNothingHereCostNothing(t *testing.T) {
	w := newWorld(t)
	w.add(t, policyOf("web"))
	w.work(t)
	elsewhere := proxy("web-0", "web", "")
	elsewhere.Namespace = "other"
	w.Placing(elsewhere, w.c2)
	w.Placing(proxy("db-0", "db", ""), w.c2)
	if n := w.workers.Queue.Len(); n > 0 {
		t.Errorf("%d policies are looked at", n)
	}
}

func TestANewPolicyIsReportedIfItSelectsProxies(t *testing.T) {
	finished := proxy("done", "job", "admiralty-c2")
	finished.Status.Phase = corev1.PodSucceeded
	plain := proxy("plain", "plain", "node")
	pods := []client.Object{
		proxy("web-0", "web", "admiralty-c2"), proxy("waits", "waiting", ""), proxy("own", "self", "admiralty-c1"),
		finished, plain,
	}
	own := func(p *networkingv1.NetworkPolicy) {
		p.Annotations = map[string]string{v1alpha1.AnnotationUseExisting: ""}
	}
	elsewhere := func(p *networkingv1.NetworkPolicy) { p.Namespace = "other" }
	for name, test := range map[string]struct {
		policy *networkingv1.NetworkPolicy
		want   []string
		looks  int
	}{
		"one of a proxy in a target":              {policyOf("web"), []string{"web-0"}, 1},
		"one of a proxy that waits":               {policyOf("waiting"), []string{"waits"}, 1},
		"one of a delegate in the source itself":  {policyOf("self"), []string{"own"}, 1},
		"one of all pods":                         {policyOf(""), []string{"waits"}, 1},
		"none of pods that have ended":            {policyOf("job"), nil, 1},
		"none of pods that are not elected":       {policyOf("plain"), nil, 1},
		"none that selects nothing":               {policyOf("nobody"), nil, 1},
		"none whose owner has another in targets": {policyOf("web", own), nil, 0},
		"none of a namespace without proxies, and the API server is not asked": {
			policyOf("web", elsewhere), nil, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pods...)
			w.add(t, test.policy)
			if diff := cmp.Diff(test.want, w.work(t)); diff != "" {
				t.Errorf("pods in events (-want, +got):\n%s", diff)
			}
			if w.looks != test.looks {
				t.Errorf("the API server was asked %d times, want %d", w.looks, test.looks)
			}
		})
	}
}

func TestAPolicyIsLookedAtAgainOnlyIfItSelectsOtherPods(t *testing.T) {
	before := policyOf("web")
	for name, test := range map[string]struct {
		after *networkingv1.NetworkPolicy
		want  []string
	}{
		"its rules change": {
			policyOf("web", func(p *networkingv1.NetworkPolicy) { p.ResourceVersion = "2" }), nil,
		},
		"it selects other pods": {
			policyOf("web", func(p *networkingv1.NetworkPolicy) { p.Spec = policyOf("db").Spec }), []string{"db-0"},
		},
		"it was made anew": {
			policyOf("web", func(p *networkingv1.NetworkPolicy) { p.UID = "another" }), []string{"web-0"},
		},
		"it is gone": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, proxy("web-0", "web", "admiralty-c2"), proxy("db-0", "db", "admiralty-c2"))
			w.add(t, before)
			w.work(t)
			w.replace(t, before, test.after)
			if diff := cmp.Diff(test.want, w.work(t)); diff != "" {
				t.Errorf("pods in events (-want, +got):\n%s", diff)
			}
			if test.after == nil && len(w.records) > 0 {
				t.Errorf("a policy that is gone is remembered: %v", w.records)
			}
		})
	}
}

func TestAPolicyOfTheSourceAppliesToDelegatesThereThatItSelects(t *testing.T) {
	exceptDB := func(p *networkingv1.NetworkPolicy) {
		p.Spec.PodSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"db"}},
		}}
	}
	kept := func(pod *corev1.Pod) { pod.Annotations[v1alpha1.AnnotationNoPrefixLabelRegexp] = "^app=" }
	for name, test := range map[string]struct {
		policy     *networkingv1.NetworkPolicy
		change     func(*corev1.Pod)
		keepLabels bool
		inC1, inC2 bool
	}{
		"a label that the delegate has under another key": {policy: policyOf("web"), inC1: true, inC2: true},
		"a label that the delegate keeps":                 {policy: policyOf("web"), change: kept, inC2: true},
		"all labels are kept":                             {policy: policyOf("web"), keepLabels: true, inC2: true},
		"all pods":                                        {policy: policyOf(""), inC2: true},
		"all pods without a label":                        {policy: policyOf("", exceptDB), inC2: true},
		"other pods":                                      {policy: policyOf("db")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.options.KeepLabels = test.keepLabels
			pod := proxy("web-0", "web", "")
			if test.change != nil {
				test.change(pod)
			}
			if got := w.escapes(test.policy, pod, w.c1); got != test.inC1 {
				t.Errorf("in the source itself, the delegate is outside of the policy: %t", got)
			}
			if got := w.escapes(test.policy, pod, w.c2); got != test.inC2 {
				t.Errorf("in another cluster, the delegate is outside of the policy: %t", got)
			}
		})
	}
}

func TestManyPoliciesAreReportedAtALimitedRate(t *testing.T) {
	w := newWorld(t)
	const many = stepsBurst + 20
	for i := range many {
		w.add(t, policyOf("web", func(p *networkingv1.NetworkPolicy) {
			p.Namespace, p.Name = fmt.Sprint("shop-", i/burstOfNamespace), fmt.Sprint("policy-", i)
		}))
	}
	w.work(t)
	w.rest()
	for i := range many / burstOfNamespace {
		pod := proxy("web-0", "web", "")
		pod.Namespace = fmt.Sprint("shop-", i)
		w.Placing(pod, w.c2)
	}
	if said := len(w.work(t)); said != stepsBurst {
		t.Errorf("%d events at once, want %d", said, stepsBurst)
	}
	w.rest()
	if said := len(w.work(t)); said != many-stepsBurst {
		t.Errorf("%d events later, want %d", said, many-stepsBurst)
	}
}

// rest lets the time pass after which all namespaces may have events, and enqueues the policies that are due.
func (w *world) rest() {
	const refilled = burstOfNamespace / stepsOfNamespace * time.Second
	w.clock.SetTime(w.clock.Now().Add(refilled))
	for key, r := range w.records {
		if r.seen != "" {
			w.workers.Queue.Add(key)
		}
	}
}

// TestANamespaceWithManyPoliciesKeepsEventsFromNoOther has one that creates and deletes them, too.
func TestANamespaceWithManyPoliciesKeepsEventsFromNoOther(t *testing.T) {
	w := newWorld(t)
	said := 0
	for i := range stepsBurst * 2 {
		policy := policyOf("web", func(p *networkingv1.NetworkPolicy) { p.Name = fmt.Sprint("policy-", i) })
		w.add(t, policy)
		w.Placing(proxy("web-0", "web", ""), w.c2)
		said += len(w.work(t))
		w.replace(t, policy, nil)
		w.work(t)
	}
	if said > burstOfNamespace {
		t.Errorf("%d events of one namespace at once, want at most %d", said, burstOfNamespace)
	}
	w.add(t, policyOf("web", func(p *networkingv1.NetworkPolicy) { p.Namespace = "other" }))
	pod := proxy("web-0", "web", "")
	pod.Namespace = "other"
	w.Placing(pod, w.c2)
	if got := len(w.work(t)); got != 1 {
		t.Errorf("%d events of another namespace, want 1", got)
	}
	if w.clock.SetTime(w.clock.Now().Add(time.Hour)); w.Follower.budgetOf("shop").TokensAt(w.clock.Now()) < 1 {
		t.Error("the namespace has no more events")
	}
}

func TestOfAPolicyLittleIsKept(t *testing.T) {
	whole := policyOf("web")
	whole.ResourceVersion = "1"
	whole.Annotations = map[string]string{v1alpha1.AnnotationUseExisting: "", "other": "long"}
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	whole.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
	want := policyOf("web")
	want.ResourceVersion = "1"
	want.Annotations = map[string]string{v1alpha1.AnnotationUseExisting: ""}
	got, err := trimmed(whole)
	if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
		t.Errorf("kept (-want, +got): %v\n%s", err, diff)
	}
}

// BenchmarkPolicies measures the memory that is kept for each of 10,000 NetworkPolicies.
func BenchmarkPolicies(b *testing.B) {
	const count = 10_000
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	var kept float64
	for b.Loop() {
		f, err := New(Options{Config: &rest.Config{}})
		if err != nil {
			b.Fatal(err)
		}
		before := heap()
		for i := range count {
			policy, _ := trimmed(policyOf(fmt.Sprintf("policy-of-application-%05d", i)))
			if err := f.policies.GetIndexer().Add(policy); err != nil {
				b.Fatal(err)
			}
		}
		kept = heap() - before
		runtime.KeepAlive(f)
	}
	b.ReportMetric(kept/count, "B/object")
}
