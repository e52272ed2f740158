package feedback

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
)

func newQueue(t *testing.T) requestQueue {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	return q
}

// engage adds an engaged target, and returns the queue of its workers.
func (s *scene) engage(key types.NamespacedName, nodeName string) requestQueue {
	q := newQueue(s.t)
	target := &engage.Target{Key: key, NodeName: nodeName}
	s.feedback.queues.Set(s.t.Context(), target, routed{target, q})
	return q
}

// showing169 is a proxy that shows an address that no proxy may show.
func showing169(pod *corev1.Pod) { pod.Status.PodIP = "169.254.1.1" }

func unbound(pod *corev1.Pod) { pod.Spec.NodeName = "" }

func TestEventsOfPodsReachTheTargetsThatTheyConcern(t *testing.T) {
	deletedNow := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)} }
	other := func(pod *corev1.Pod) { pod.Spec.SchedulerName = "default-scheduler" }
	bare := func(pod *corev1.Pod) { pod.Annotations = nil }
	finalizer := func(pod *corev1.Pod) { pod.Finalizers = []string{v1alpha1.GroupName + "/old"} }
	others := func(pod *corev1.Pod) { pod.Finalizers = []string{"example.org/x"} }
	type options = []func(*corev1.Pod)
	const own, tenant, pods = "c2", "a Target of another namespace", "the controller of pods"
	everywhere := []string{own, "c3"}
	for name, test := range map[string]struct {
		old, is options // old is nil if the pod was created, and is if it was deleted
		unknown bool    // the last state of the deleted pod
		want    []string
	}{
		"a bound proxy appears":    {is: options{}, want: []string{own}},
		"an unbound proxy appears": {is: options{unbound}},
		"a bound proxy changes":    {old: options{}, is: options{labelled}, want: []string{own}},
		"an unbound proxy changes": {old: options{unbound}, is: options{unbound, labelled}},
		"a proxy is bound":         {old: options{unbound}, is: options{}, want: everywhere},
		"the next proxy has the name": {
			old: options{func(p *corev1.Pod) { p.UID = "0" }}, is: options{}, want: everywhere,
		},
		"an unbound proxy is being deleted": {
			old: options{unbound}, is: options{unbound, deletedNow}, want: everywhere,
		},
		"a bound proxy is being deleted":     {old: options{}, is: options{deletedNow}, want: []string{own}},
		"a bound proxy is gone":              {old: options{}, want: []string{own}},
		"an unbound proxy is gone":           {old: options{unbound}, want: everywhere},
		"an unbound proxy lost its marks":    {old: options{unbound, bare}, want: everywhere},
		"a proxy is gone, nobody saw how":    {old: options{}, unknown: true, want: everywhere},
		"another pod appears":                {is: options{other}},
		"another pod is gone":                {old: options{other, unbound}},
		"a pod has a finalizer of before":    {is: options{other, finalizer}, want: []string{pods}},
		"a proxy has a finalizer of before":  {is: options{finalizer}, want: []string{own, pods}},
		"a proxy has a finalizer of others":  {is: options{others}, want: []string{own}},
		"a proxy shows a bad address":        {is: options{showing169}, want: []string{own, pods}},
		"another pod has such an address":    {is: options{other, showing169}},
		"another pod on a node ends":         {is: options{other, deletedNow}, want: []string{pods}},
		"another pod without a node ends":    {is: options{other, unbound, deletedNow}},
		"a proxy without an address appears": {is: options{}, want: []string{own}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			queues := map[string]requestQueue{
				own:    s.engage(types.NamespacedName{Name: "c2"}, node),
				"c3":   s.engage(types.NamespacedName{Name: "c3"}, "n3"),
				tenant: s.engage(types.NamespacedName{Namespace: "other", Name: "c4"}, "n4"),
				pods:   newQueue(t),
			}
			h, q := s.feedback.PodHandler(), queues[pods]
			switch {
			case test.is == nil:
				h.Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{
					Object: proxy(test.old...), DeleteStateUnknown: test.unknown,
				}, q)
			case test.old == nil:
				h.Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: proxy(test.is...)}, q)
			default:
				h.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{
					ObjectOld: proxy(test.old...), ObjectNew: proxy(test.is...),
				}, q)
			}
			for name, q := range queues {
				if got := q.Len() == 1; got != slices.Contains(test.want, name) {
					t.Errorf("%s has %d requests", name, q.Len())
				}
			}
		})
	}
}

func TestPodsThatConcernNoTarget(t *testing.T) {
	const grace = 30
	provided := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: node, Labels: map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue},
	}}
	another := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	other := func(pod *corev1.Pod) { pod.Spec.SchedulerName = "default-scheduler" }
	ends := func(pod *corev1.Pod) { terminating(grace)(pod); pod.Finalizers = []string{"example.org/x"} }
	old := func(pod *corev1.Pod) { pod.Finalizers = []string{v1alpha1.GroupName + "/old", "example.org/x"} }
	for name, test := range map[string]struct {
		pod       *corev1.Pod
		node      *corev1.Node
		confirmed bool
	}{
		"a pod on a virtual node ends":      {proxy(other, ends), provided, true},
		"a pod on a virtual node runs":      {proxy(other), provided, false},
		"a pod on a node of others ends":    {proxy(other, ends), another, false},
		"a pod on a node that is gone ends": {proxy(other, ends), nil, false},
		"a proxy ends":                      {proxy(ends), provided, false},
		"a pod of before":                   {proxy(other, old), provided, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{test.pod}
			if test.node != nil {
				objects = append(objects, test.node)
			}
			s := newScene(t, objects...)
			deletions := &deletions{WithWatch: s.source}
			s.feedback.options.Client = deletions
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(test.pod)}
			if _, err := s.feedback.ReconcilePod(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if got := slices.Equal(deletions.graces, []int64{0}); got != test.confirmed {
				t.Errorf("deleted with grace periods %v", deletions.graces)
			}
			if now := s.now(); slices.ContainsFunc(now.Finalizers, isOurFinalizer) || len(now.Finalizers) !=
				len(slices.DeleteFunc(slices.Clone(test.pod.Finalizers), isOurFinalizer)) {
				t.Errorf("finalizers %v", now.Finalizers)
			}
		})
	}
	t.Run("a pod that is gone", func(t *testing.T) {
		s := newScene(t)
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "web"}}
		if _, err := s.feedback.ReconcilePod(t.Context(), request); err != nil {
			t.Error(err)
		}
	})
	for name, test := range map[string]struct {
		err    error
		failed bool
	}{
		"the API server is down":           {errDown, true},
		"the pod with a finalizer is gone": {apierrors.NewNotFound(corev1.Resource("pods"), "web"), false},
		"the pod with a finalizer changed": {apierrors.NewConflict(corev1.Resource("pods"), "web", errDown), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, proxy(old))
			s.feedback.options.Client = &deletions{WithWatch: s.source, patch: test.err}
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(proxy())}
			if _, err := s.feedback.ReconcilePod(t.Context(), request); (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
		})
	}
}

// deletions notes the grace periods of deletions, and lets patches fail.
type deletions struct {
	client.WithWatch

	graces []int64
	patch  error
}

func (d *deletions) Delete(_ context.Context, _ client.Object, options ...client.DeleteOption) error {
	asked := (&client.DeleteOptions{}).ApplyOptions(options)
	d.graces = append(d.graces, *asked.GracePeriodSeconds)
	return nil
}

func (d *deletions) Patch(
	ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	if d.patch != nil {
		return d.patch
	}
	return d.WithWatch.Patch(ctx, o, patch, options...)
}

func TestABadAddressIsHidden(t *testing.T) {
	key := types.NamespacedName{Name: "c2"}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		target string // the node of the engaged target, or empty
		lost   bool
		shows  bool
		queued int
		events []string
	}{
		"at once if the target is not engaged": {change: showing169, events: []string{ReasonAddressRefused}},
		"at once if the target is lost": {
			change: showing169, target: node, lost: true, events: []string{ReasonAddressRefused},
		},
		"at once if another target is engaged": {
			change: showing169, target: "n3", events: []string{ReasonAddressRefused},
		},
		"by the target's workers":        {change: showing169, target: node, shows: true, queued: 1},
		"unless there is none":           {change: labelled},
		"with one event for one address": {change: refusedBefore},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, proxy(test.change))
			q := newQueue(t)
			if test.target != "" {
				target := &engage.Target{Key: key, NodeName: test.target}
				if test.lost {
					engage.NewRegistry().Lose(target)
				}
				s.feedback.queues.Set(t.Context(), target, routed{target, q})
			}
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(proxy())}
			if _, err := s.feedback.ReconcilePod(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			now := s.now()
			if shows := now.Status.PodIP != ""; shows != test.shows {
				t.Errorf("it shows %q", now.Status.PodIP)
			}
			if q.Len() != test.queued {
				t.Errorf("%d requests", q.Len())
			}
			s.expectEvents(test.events...)
		})
	}
}

// refusedBefore is a proxy that says already which address it does not show, and got the same one again.
func refusedBefore(pod *corev1.Pod) {
	showing169(pod)
	refused := (&addresses.InUse{}).Vet(pod, addresses.Ranges{}, false, netip.MustParseAddr(pod.Status.PodIP))
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: v1alpha1.ConditionAddresses, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonAddressRefused,
		Message: "this pod does not show what the target reports: " + refused.Error(),
	}}
}

func TestNewRangesOfATargetConcernItsProxies(t *testing.T) {
	s := newScene(t, proxy(), proxy(func(p *corev1.Pod) { p.Name, p.Spec.NodeName = "elsewhere", "admiralty-c3" }))
	own := s.engage(types.NamespacedName{Name: "c2"}, node)
	other := s.engage(types.NamespacedName{Name: "c3"}, "admiralty-c3")
	s.feedback.rangesChanged(t.Context(), types.NamespacedName{Name: "c2"})
	if own.Len() != 1 || other.Len() != 0 {
		t.Errorf("%d requests, and %d for another target", own.Len(), other.Len())
	}
}

func TestTheRangesOfATarget(t *testing.T) {
	limited := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
	limited.Spec.AllowedPodCIDRs = []string{"10.9.0.0/16"}
	shows := func(s *scene) string {
		t.Helper()
		if _, err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
		return s.now().Status.PodIP
	}
	at := func(c *v1alpha1.PodChaperon) { c.Status.PodIP = "10.1.0.7" }
	within := func(c *v1alpha1.PodChaperon) { c.Status.PodIP = "10.9.0.7" }
	for name, test := range map[string]struct {
		namespace  string
		enforce    bool
		cidrs      []string // of tenants
		inside     string   // what is shown of an address in limited's ranges
		outside    string   // and of another one
		withTarget bool
	}{
		"of a ClusterTarget with ranges":  {withTarget: true, inside: "10.9.0.7"},
		"of a ClusterTarget that is gone": {inside: "10.9.0.7", outside: "10.1.0.7"},
		"of a Target without limits":      {namespace: "default", inside: "10.9.0.7", outside: "10.1.0.7"},
		"of a Target when limits count":   {namespace: "default", enforce: true},
		"of a Target in the chart's ranges": {
			namespace: "default", cidrs: limited.Spec.AllowedPodCIDRs, inside: "10.9.0.7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for c, want := range map[*v1alpha1.PodChaperon]string{ours(at): test.outside, ours(within): test.inside} {
				objects := []client.Object{proxy(), c}
				if test.withTarget {
					objects = append(objects, limited)
				}
				s := newScene(t, objects...)
				s.engaged.Key.Namespace = test.namespace
				s.feedback.options.Tenants.Enforce = test.enforce
				s.feedback.options.Tenants.AllowedPodCIDRs = test.cidrs
				s.reconciler = s.feedback.Reconciler(s.engaged)
				if got := shows(s); got != want {
					t.Errorf("it shows %q, want %q", got, want)
				}
			}
		})
	}
}
