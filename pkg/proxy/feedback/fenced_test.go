package feedback

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

var lostKey = types.NamespacedName{Name: "c2"}

// lostWorld is a target c2 that is lost, in the cluster "id", at a time.
type lostWorld struct {
	proxy             *corev1.Pod
	connected         string                   // the reason of c2's condition
	renewed           map[string]time.Duration // ago, by target or cluster
	unreliable        bool                     // by c2's status
	awake             metav1.ConditionStatus   // of c2's manager, or empty if it has no Lease
	reachable, cannot bool                     // of the engagement of c2
	engaged           bool
	sibling           *engage.Target // another target that is engaged, or nil
	unknown           bool           // which cluster c2 is
	warnings          []string       // that nothing is fenced, of the last look
	deleted           int            // how often the proxy was, with a grace period of 0
}

// stays reconciles, and says whether the proxy was left alone. Somebody's finalizer holds it when its end is confirmed.
func (w *lostWorld) stays(t *testing.T) bool {
	t.Helper()
	c, look := w.start(t)
	look()
	now := &corev1.Pod{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(w.proxy), now); err != nil {
		t.Fatal(err)
	}
	if ended := now.Status.Phase == corev1.PodFailed; ended != (w.deleted == 1) {
		t.Errorf("the proxy is %s, and was deleted %d times", now.Status.Phase, w.deleted)
	}
	return w.deleted == 0
}

// start returns the API server, and what reconciles and notes the warnings.
func (w *lostWorld) start(t *testing.T) (c client.Client, look func()) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&corev1.Pod{}).
		WithObjects(w.proxy, w.target()).WithIndex(&corev1.Pod{}, podcache.IndexNode, podcache.NodeOfProxy).
		WithInterceptorFuncs(interceptor.Funcs{Delete: w.countDeletion}).Build()
	recorder := events.NewFakeRecorder(10)
	f := New(Options{
		Client: c, Proxies: podcache.NewByNode(c, nil), Clock: clock, Recorder: recorder,
		LastRenewal: func(key types.NamespacedName, cluster string) time.Time {
			if len(w.renewed) == 0 {
				return time.Time{}
			}
			return clock.Now().Add(-min(w.renewed[key.Name], w.renewed[cluster]))
		},
	})
	if w.engaged {
		target := &engage.Target{Key: lostKey}
		target.SetFences(!w.cannot)
		if !w.reachable {
			engage.NewRegistry().Lose(target)
		}
		f.queues.Set(t.Context(), target, routed{target: target})
	}
	if w.sibling != nil {
		f.queues.Set(t.Context(), w.sibling, routed{target: w.sibling})
	}
	return c, func() {
		t.Helper()
		w.warnings = nil
		if _, err := f.ReconcileLost(t.Context(), reconcile.Request{NamespacedName: lostKey}); err != nil {
			t.Fatal(err)
		}
		for len(recorder.Events) > 0 {
			if event := <-recorder.Events; strings.Contains(event, v1alpha1.ReasonFencingDoesNotHold) {
				w.warnings = append(w.warnings, event)
			}
		}
	}
}

func (w *lostWorld) countDeletion(
	_ context.Context, _ client.WithWatch, o client.Object, options ...client.DeleteOption,
) error {
	asked := (&client.DeleteOptions{}).ApplyOptions(options)
	if o.GetName() == w.proxy.Name && *asked.GracePeriodSeconds == 0 && *asked.Preconditions.UID == w.proxy.UID {
		w.deleted++
	}
	return nil
}

func (w *lostWorld) target() *v1alpha1.ClusterTarget {
	lost := &v1alpha1.ClusterTarget{
		ObjectMeta: metav1.ObjectMeta{Name: lostKey.Name},
		Status: v1alpha1.TargetStatus{
			ClusterID:  "id",
			Fences:     ptr.To(!w.unreliable),
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionConnected, Reason: w.connected}},
		},
	}
	if w.unknown {
		lost.Status.ClusterID = ""
	}
	if w.awake != "" {
		awake := metav1.Condition{Type: v1alpha1.ConditionAwake, Status: w.awake}
		lost.Status.Conditions = append(lost.Status.Conditions, awake)
	}
	return lost
}

// fencedProxy is a proxy on a node that is being deleted, with a fence of a minute and a grace period of 30 s.
func fencedProxy(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "db-0", UID: "uid", Finalizers: []string{"example.org/keep"},
			DeletionTimestamp: ptr.To(metav1.NewTime(time.Unix(1e9, 0))), DeletionGracePeriodSeconds: ptr.To[int64](30),
			Annotations: map[string]string{v1alpha1.AnnotationFencedAfter: "60"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName, NodeName: translate.VirtualNodeName(lostKey),
			TerminationGracePeriodSeconds: ptr.To[int64](30),
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func TestSurelyFenced(t *testing.T) {
	bound := timeouts.FenceHoldsAfterRestart(time.Minute, 30*time.Second)
	for name, test := range map[string]struct {
		proxy  *corev1.Pod
		silent time.Duration
		want   bool
	}{
		"the bound has passed":  {fencedProxy(), bound + 1, true},
		"the bound is just now": {fencedProxy(), bound, false},
		"a longer fence": {fencedProxy(func(p *corev1.Pod) {
			p.Annotations[v1alpha1.AnnotationFencedAfter] = "61"
		}), bound + time.Second, false},
		"a longer grace period": {fencedProxy(func(p *corev1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](32)
		}), bound + time.Second, false},
		"the proxy is not being deleted": {
			fencedProxy(func(p *corev1.Pod) { p.DeletionTimestamp = nil }), bound + 1, false,
		},
		"its target fences nothing": {fencedProxy(func(p *corev1.Pod) { p.Annotations = nil }), 24 * time.Hour, false},
		"somebody wrote nonsense": {fencedProxy(func(p *corev1.Pod) {
			p.Annotations[v1alpha1.AnnotationFencedAfter] = "1"
		}), 24 * time.Hour, false},
		"it is no proxy": {fencedProxy(func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }), 24 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := surelyFenced(test.proxy, test.silent); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTheEndOfAFencedProxyIsConfirmedWhenItsTargetIsSurelySilent(t *testing.T) {
	const long, short = 24 * time.Hour, time.Minute
	for name, test := range map[string]struct {
		change func(*lostWorld)
		stays  bool
	}{
		"the target is lost for long": {change: func(*lostWorld) {}},
		"a new leader has not seen the target": {
			change: func(w *lostWorld) { w.engaged = false },
		},
		"the source renewed not long ago": {
			change: func(w *lostWorld) { w.renewed["c2"] = short }, stays: true,
		},
		"a sibling renewed not long ago": {
			change: func(w *lostWorld) { w.renewed["id"] = short }, stays: true,
		},
		"another cluster is heard of": {
			change: func(w *lostWorld) { w.renewed["c3"], w.renewed["another"] = short, short },
		},
		"it was held by another source before it was lost": {
			change: func(w *lostWorld) { w.unreliable, w.engaged = true, false }, stays: true,
		},
		"this process does not lead": {
			change: func(w *lostWorld) { w.renewed = nil }, stays: true,
		},
		"the target answers": {
			change: func(w *lostWorld) { w.reachable = true }, stays: true,
		},
		"its manager fences no longer": {
			change: func(w *lostWorld) { w.cannot = true }, stays: true,
		},
		"its manager was awake until it was lost": {
			change: func(w *lostWorld) { w.awake = metav1.ConditionTrue },
		},
		"its manager was silent before it was lost": {
			change: func(w *lostWorld) { w.awake = metav1.ConditionFalse }, stays: true,
		},
		"its manager was silent before a new leader": {
			change: func(w *lostWorld) { w.awake, w.engaged = metav1.ConditionFalse, false }, stays: true,
		},
		"it is connected": {
			change: func(w *lostWorld) { w.connected = v1alpha1.ReasonConnected }, stays: true,
		},
		"it refuses this source": {
			change: func(w *lostWorld) { w.connected = v1alpha1.ReasonForbidden }, stays: true,
		},
		"another source acts there": {
			change: func(w *lostWorld) { w.connected = v1alpha1.ReasonHeldByOther }, stays: true,
		},
		"another cluster is in its place": {
			change: func(w *lostWorld) { w.connected = v1alpha1.ReasonOtherCluster }, stays: true,
		},
		"the proxy is in another target": {
			change: func(w *lostWorld) { w.proxy.Spec.NodeName = "admiralty-c3" }, stays: true,
		},
		"the target fences nothing for it": {
			change: func(w *lostWorld) { w.proxy.Annotations = nil }, stays: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lostWorld{
				proxy:     fencedProxy(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }),
				connected: v1alpha1.ReasonUnreachable, engaged: true,
				renewed: map[string]time.Duration{"c2": long, "id": long},
			}
			test.change(&w)
			if got := w.stays(t); got != test.stays {
				t.Errorf("the proxy stays: %v", got)
			}
		})
	}
}

// The API server deletes a pod by two writes: it may have done one of them.
func TestAFencedProxyIsDeletedAgainOnlyIfItsDeletionIsHalfDone(t *testing.T) {
	for name, test := range map[string]struct {
		since      time.Duration
		finalizers []string
		deleted    int
	}{
		"half of it is done":       {since: deletesAgain, deleted: 1},
		"it may just be under way": {since: deletesAgain - time.Second},
		"somebody holds the proxy": {since: time.Hour, finalizers: []string{"example.org/keep"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := lostWorld{proxy: fencedProxy(func(p *corev1.Pod) {
				p.Finalizers, p.DeletionGracePeriodSeconds = test.finalizers, ptr.To[int64](0)
				p.Status.Phase = corev1.PodFailed
			})}
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Delete: w.countDeletion}).Build()
			clock := clocktesting.NewFakePassiveClock(w.proxy.DeletionTimestamp.Add(test.since))
			f := New(Options{Client: c, Clock: clock, Recorder: events.NewFakeRecorder(1)})
			if err := f.confirmFenced(t.Context(), w.proxy); err != nil || w.deleted != test.deleted {
				t.Errorf("deleted %d times, error %v", w.deleted, err)
			}
		})
	}
}

func TestAllFencedProxiesOfALostTargetEnd(t *testing.T) {
	w := lostWorld{
		proxy:     fencedProxy(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }),
		connected: v1alpha1.ReasonUnreachable, engaged: true, sibling: &engage.Target{
			Key: types.NamespacedName{Name: "c2-too"}, ClusterID: "id",
		},
		renewed: map[string]time.Duration{"c2": 24 * time.Hour, "id": 24 * time.Hour},
	}
	if w.stays(t) || len(w.warnings) == 0 {
		t.Errorf("deleted %d times; what comes after the proxies is done: %v", w.deleted, w.warnings)
	}
}

func TestAFencedProxyThatCannotBeDeletedDelaysNoOther(t *testing.T) {
	named := func(name string) *corev1.Pod { return fencedProxy(func(p *corev1.Pod) { p.Name = name }) }
	var asked []string
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(
			context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption,
		) error {
			return nil
		},
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			asked = append(asked, o.GetName())
			return errDown
		},
	}).Build()
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	f := New(Options{
		Client: c, Clock: clock, Recorder: events.NewFakeRecorder(10),
		LastRenewal: func(types.NamespacedName, string) time.Time { return clock.Now().Add(-24 * time.Hour) },
	})
	err := f.confirmAll(t.Context(), &v1alpha1.ClusterTarget{}, []*corev1.Pod{named("a"), named("b")})
	if !errors.Is(err, errDown) || !slices.Equal(asked, []string{"a", "b"}) {
		t.Errorf("asked to delete %v, error %v", asked, err)
	}
}

func TestALostTargetWhoseSiblingIsConnectedFencesNothing(t *testing.T) {
	lost := func(target *engage.Target) *engage.Target {
		engage.NewRegistry().Lose(target)
		return target
	}
	too := types.NamespacedName{Name: "c2-too"}
	for name, test := range map[string]struct {
		sibling *engage.Target
		change  func(*corev1.Pod)
		want    bool
	}{
		"the sibling is connected": {sibling: &engage.Target{Key: too, ClusterID: "id"}, want: true},
		"no pod asks for fencing": {
			sibling: &engage.Target{Key: too, ClusterID: "id"}, change: func(p *corev1.Pod) { p.Annotations = nil },
		},
		"the sibling is lost, too":     {sibling: lost(&engage.Target{Key: too, ClusterID: "id"})},
		"the target is of another one": {sibling: &engage.Target{Key: too, ClusterID: "another"}},
		"nobody knows their clusters":  {sibling: &engage.Target{Key: too}},
		"there is no other target":     {},
	} {
		t.Run(name, func(t *testing.T) {
			w := lostWorld{
				proxy: fencedProxy(), connected: v1alpha1.ReasonUnreachable, engaged: true, sibling: test.sibling,
				renewed: map[string]time.Duration{"c2": time.Minute, "id": 0},
			}
			if test.change != nil {
				test.change(w.proxy)
			}
			w.unknown = test.sibling != nil && test.sibling.ClusterID == ""
			if !w.stays(t) || len(w.warnings) > 0 != test.want {
				t.Errorf("warnings: %v", w.warnings)
			}
		})
	}
}
