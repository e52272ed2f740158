package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	kubernetestesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

var errAway = errors.New("the API server is away")

// source is a source cluster with a Reconciler that has started.
type source struct {
	*Reconciler
	// seen is what the cache shows, and exist what the API server has.
	seen, exist client.Client
	nodes       *kubernetesfake.Clientset
	queue       workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func newBuilder(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.ClusterTarget{}, &v1alpha1.Target{}).
		WithIndex(&corev1.Pod{}, podcache.IndexNode, podcache.NodeOfProxy)
}

// newSource returns a source. funcs are what requests to the API server become, but for those of node controllers.
func newSource(t *testing.T, seen, exist []client.Object, funcs interceptor.Funcs) *source {
	t.Helper()
	s := &source{
		seen:  newBuilder(t, seen...).WithInterceptorFuncs(funcs).Build(),
		exist: newBuilder(t, exist...).WithInterceptorFuncs(funcs).Build(),
		nodes: kubernetesfake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceNodeLease, Name: "admiralty-c2", UID: "of an earlier node",
		}}),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	t.Cleanup(s.queue.ShutDown)
	var err error
	s.Reconciler, err = New(Options{
		Client: s.seen, APIReader: s.exist, Config: &rest.Config{Host: "http://127.0.0.1:1"},
		Proxies:  podcache.NewByNode(s.seen, nil),
		Registry: engage.NewRegistry(), Clock: testclock.NewFakePassiveClock(time.Unix(1000, 0)),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.clients = s.nodes
	if err := s.wake.Start(t.Context(), s.queue); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *source) ready(t *testing.T, key types.NamespacedName) *metav1.Condition {
	t.Helper()
	target := targetkind.New(key)
	if err := s.seen.Get(t.Context(), key, target); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(targetkind.Status(target).Conditions, v1alpha1.ConditionReady)
}

// oldLease says whether the Lease of an earlier node is still there.
func (s *source) oldLease(t *testing.T) bool {
	t.Helper()
	leases := s.nodes.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(t.Context(), "admiralty-c2", metav1.GetOptions{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil && lease.UID == "of an earlier node"
}

var c2 = types.NamespacedName{Name: "c2"}

func clusterTarget() *v1alpha1.ClusterTarget {
	return &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
}

func TestATargetGetsANode(t *testing.T) {
	ours := desiredNode(facts{key: c2})
	others := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "admiralty-c2"}}
	for name, test := range map[string]struct {
		seen, exists *corev1.Node
		runs         bool
		oldLease     bool
		reason       string // of the condition Ready
	}{
		"a new one": {runs: true, reason: v1alpha1.ReasonNotConnected},
		"one that exists, whose Lease it keeps": {
			seen: ours, exists: ours, runs: true, oldLease: true, reason: v1alpha1.ReasonNotConnected,
		},
		"one that the cache does not show yet": {
			exists: ours, runs: true, oldLease: true, reason: v1alpha1.ReasonNotConnected,
		},
		"none if somebody else has one of its name": {
			seen: others, exists: others, oldLease: true, reason: v1alpha1.ReasonNodeConflict,
		},
		"none if somebody else has one, and the cache lags": {
			exists: others, oldLease: true, reason: v1alpha1.ReasonNotConnected,
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen, exist := []client.Object{clusterTarget()}, []client.Object{clusterTarget()}
			if test.seen != nil {
				seen = append(seen, test.seen.DeepCopy())
			}
			if test.exists != nil {
				exist = append(exist, test.exists.DeepCopy())
			}
			s := newSource(t, seen, exist, interceptor.Funcs{})
			result, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: c2})
			if err != nil {
				t.Fatal(err)
			}
			running := s.activeRunner(c2)
			if (running != nil) != test.runs || (result.RequeueAfter == handOverAgainAfter) != test.runs {
				t.Errorf("a node controller runs: %t, next look after %s", running != nil, result.RequeueAfter)
			}
			if ready := s.ready(t, c2); ready == nil || ready.Reason != test.reason {
				t.Errorf("condition %+v, want the reason %s", ready, test.reason)
			}
			if left := s.oldLease(t); left != test.oldLease {
				t.Errorf("the Lease of an earlier node is there: %t", left)
			}
			if to := s.targetOf(t.Context(), others); len(to) != 1 || to[0].NamespacedName != c2 {
				t.Errorf("events of a node of that name lead to %v", to)
			}
		})
	}
}

func TestANodeControllerStopsWhenSomebodyElseTakesItsName(t *testing.T) {
	s := newSource(t, []client.Object{clusterTarget()}, []client.Object{clusterTarget()}, interceptor.Funcs{})
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: c2}); err != nil {
		t.Fatal(err)
	}
	running := s.activeRunner(c2)
	others := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "admiralty-c2"}}
	if err := s.seen.Create(t.Context(), others); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: c2}); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "the end of the node controller", running.ended)
	waittest.Eventually(t, "another look at the target", func() bool { return s.queue.Len() > 0 })
}

func TestATargetThatIsGoneLosesItsNode(t *testing.T) {
	node := desiredNode(facts{key: c2})
	s := newSource(t, nil, []client.Object{node.DeepCopy()}, interceptor.Funcs{})
	s.remember(c2)
	if err := s.seen.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: c2}); err != nil {
		t.Fatal(err)
	}
	if err := s.seen.Get(t.Context(), client.ObjectKeyFromObject(node), node); !apierrors.IsNotFound(err) {
		t.Errorf("the node is there, error %v", err)
	}
	if s.oldLease(t) {
		t.Error("its Lease is there")
	}
}

func TestWhatANodeIsMadeOf(t *testing.T) {
	ofTeam := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c2"}}
	filtered := clusterTarget()
	filtered.Spec.ExcludedLabelsRegexp = "^secret/"
	broken := clusterTarget()
	broken.Spec.ExcludedLabelsRegexp = "("
	large := clusterTarget()
	large.Spec.ExcludedLabelsRegexp = strings.Repeat("(?:.?){1000}", 300)
	for name, test := range map[string]struct {
		target                    client.Object
		enforce                   bool
		limited, excludes, broken bool
	}{
		"of a ClusterTarget":                         {target: clusterTarget()},
		"of a ClusterTarget while limits are strict": {target: clusterTarget(), enforce: true},
		"of a Target":                                {target: ofTeam},
		"of a Target while limits are strict":        {target: ofTeam, enforce: true, limited: true},
		"without excluded labels":                    {target: filtered, excludes: true},
		"without labels if an expression is none":    {target: broken, broken: true},
		"without labels if it is too large":          {target: large, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t, []client.Object{test.target}, nil, interceptor.Funcs{})
			s.options.Tenants.Enforce = test.enforce
			f, err := s.readFacts(t.Context(), test.target)
			if err != nil || (f.invalid != nil) != test.broken {
				t.Fatalf("error %v, and of the expression %v", err, f.invalid)
			}
			if (f.allowed != nil) != test.limited || (f.excluded != nil) != (test.excludes || test.broken) {
				t.Errorf("limited: %t, labels are excluded: %t", f.allowed != nil, f.excluded != nil)
			}
			if test.broken && !f.excluded.MatchString("a=b") {
				t.Error("nobody knows which labels to leave out, and some are shown")
			}
		})
	}
}

// Whoever takes an error for an answer deletes nodes, or lets pods be evicted.
func TestAnErrorIsNoAnswer(t *testing.T) {
	// fails lets the first requests for nodes, or for targets, succeed.
	fails := func(nodes bool, succeed int) interceptor.Funcs {
		return interceptor.Funcs{Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			if _, node := o.(*corev1.Node); node == nodes {
				if succeed--; succeed < 0 {
					return errAway
				}
			}
			return c.Get(ctx, key, o, opts...)
		}}
	}
	for name, funcs := range map[string]interceptor.Funcs{
		"of the target":                     fails(false, 0),
		"of the node in the cache":          fails(true, 0),
		"of the node in the API server":     fails(true, 1),
		"of the pods that may be fenced":    {List: noList},
		"of the target's condition's write": {SubResourceApply: noApply},
	} {
		t.Run(name, func(t *testing.T) {
			target := clusterTarget()
			target.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonFlapping,
			}}
			s := newSource(t, []client.Object{target}, []client.Object{target}, funcs)
			_, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: c2})
			if !errors.Is(err, errAway) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func noList(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
	return errAway
}

func noApply(
	context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption,
) error {
	return errAway
}

func TestAnErrorOfATargetIsNoSummary(t *testing.T) {
	s := newSource(t, nil, nil, interceptor.Funcs{})
	if summary, err := s.getSummary(t.Context(), c2); summary != nil || err != nil {
		t.Errorf("nobody is engaged: %v, error %v", summary, err)
	}
	funcs := interceptor.Funcs{Get: func(
		context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption,
	) error {
		return errAway
	}}
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	for name, test := range map[string]struct {
		client client.Client
		found  bool
		err    error
	}{
		"it has one":         {client: newBuilder(t, summary).Build(), found: true},
		"it has none":        {client: newBuilder(t).Build()},
		"it does not answer": {client: newBuilder(t).WithInterceptorFuncs(funcs).Build(), err: errAway},
	} {
		target := &engage.Target{Key: c2, NodeName: "admiralty-c2", Client: test.client}
		if err := s.options.Registry.Engage(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		got, err := s.getSummary(t.Context(), c2)
		if (got != nil) != test.found || !errors.Is(err, test.err) {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
	}
}

func TestANodeControllerThatEndsIsStartedAgain(t *testing.T) {
	s := newSource(t, nil, nil, interceptor.Funcs{})
	s.runnerEnded(c2, errAway)
	if s.queue.Len() > 0 {
		t.Error("it is started at once, although it failed")
	}
	s.runnerEnded(c2, nil)
	if s.queue.Len() == 0 {
		t.Error("it is not started at once, although it was stopped")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	late := newSource(t, nil, nil, interceptor.Funcs{})
	if err := late.wake.Start(ended, late.queue); err != nil {
		t.Fatal(err)
	}
	late.runnerEnded(c2, nil)
	if late.queue.Len() > 0 {
		t.Error("it is started although the manager ends")
	}
}

func TestANodeWaitsUntilTheLeaseOfAnEarlierNodeIsGone(t *testing.T) {
	s := newSource(t, []client.Object{clusterTarget()}, nil, interceptor.Funcs{})
	s.nodes.PrependReactor("delete", "leases", func(kubernetestesting.Action) (bool, runtime.Object, error) {
		return true, nil, errAway
	})
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: c2}); !errors.Is(err, errAway) {
		t.Errorf("error %v", err)
	}
	if s.activeRunner(c2) != nil {
		t.Error("a node controller runs")
	}
}
