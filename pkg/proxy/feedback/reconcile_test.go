package feedback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

var errDown = errors.New("down")

// scene is a source and a target, on fake API servers. Their caches can lag, and requests can fail.
type scene struct {
	t              *testing.T
	source, target client.WithWatch
	engaged        *engage.Target
	recorder       *events.FakeRecorder
	clock          *clocktesting.FakePassiveClock
	feedback       *Feedback
	reconciler     reconcile.Reconciler
	keys           *proof.Keys // nil if there are none
	placedBeside   func(proxy types.UID, nodeName string) *engage.Target
	// cached are the proxy and the PodChaperons as the caches show them. Without them, the caches show what is.
	cachedProxy     func() *corev1.Pod
	cachedChaperons func() []v1alpha1.PodChaperon
	// fail has the answers to requests: "list chaperons", "get proxy", "live proxy", "live chaperon", "patch chaperon",
	// "patch proxy" (but not its status).
	fail map[string]error
	// liveSeen changes what API servers answer.
	liveSeen func(client.Object)
	// requests are those that change the target.
	requests []string
	// changes are patches of the proxy, but not of its status.
	changes int
}

func newScene(t *testing.T, objects ...client.Object) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &scene{
		t: t, fail: map[string]error{},
		recorder: events.NewFakeRecorder(20), clock: clocktesting.NewFakePassiveClock(time.Unix(2000, 0)),
	}
	source := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&corev1.Pod{}).
		WithIndex(&corev1.Pod{}, podcache.IndexNode, podcache.NodeOfProxy)
	target := fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&v1alpha1.PodChaperon{}, engage.IndexParent, func(o client.Object) []string {
			return []string{gate.ParentOf(o).Key.String()}
		})
	for _, o := range objects {
		if _, ok := o.(*v1alpha1.PodChaperon); ok {
			target.WithObjects(o)
		} else {
			source.WithObjects(o)
		}
	}
	s.source, s.target = source.Build(), target.Build()
	s.engaged = &engage.Target{
		Key: types.NamespacedName{Name: "c2"}, NodeName: node, Hash: "hash",
		Client:    interceptor.NewClient(s.target, interceptor.Funcs{List: s.list, Patch: s.patch, Delete: s.remove}),
		APIReader: s.live(s.target, "live chaperon"),
	}
	s.feedback = New(Options{
		Client:  interceptor.NewClient(s.source, interceptor.Funcs{Get: s.get, Patch: s.patchProxy}),
		Proxies: podcache.NewByNode(s.source, nil),
		Clock:   s.clock, Recorder: s.recorder,
		APIReader: s.live(s.source, "live proxy"),
		Source:    translate.Source{ClusterID: "id", ClusterName: "c1"},
		Addresses: &addresses.InUse{},
		Keys: func() (*proof.Keys, error) {
			if s.keys == nil {
				return nil, errDown
			}
			return s.keys, nil
		},
		PlacedBeside: func(proxy types.UID, nodeName string) *engage.Target {
			if s.placedBeside == nil {
				return nil
			}
			return s.placedBeside(proxy, nodeName)
		},
	})
	s.reconciler = s.feedback.Reconciler(s.engaged)
	return s
}

// live is the client that reads from an API server.
func (s *scene) live(c client.WithWatch, what string) client.Reader {
	return interceptor.NewClient(c, interceptor.Funcs{Get: func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
	) error {
		if err := s.fail[what]; err != nil {
			return err
		}
		err := c.Get(ctx, key, o, options...)
		if err == nil && s.liveSeen != nil {
			s.liveSeen(o)
		}
		return err
	}})
}

func (s *scene) get(
	ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
) error {
	pod, ok := o.(*corev1.Pod)
	if err := s.fail["get proxy"]; ok && err != nil {
		return err
	}
	if !ok || s.cachedProxy == nil {
		return c.Get(ctx, key, o, options...)
	}
	cached := s.cachedProxy()
	if cached == nil {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	cached.DeepCopyInto(pod)
	return nil
}

func (s *scene) list(
	ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
) error {
	if err := s.fail["list chaperons"]; err != nil {
		return err
	}
	if chaperons, ok := list.(*v1alpha1.PodChaperonList); ok && s.cachedChaperons != nil {
		chaperons.Items = s.cachedChaperons()
		return nil
	}
	return c.List(ctx, list, options...)
}

func (s *scene) patch(
	ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	if err := s.fail["patch chaperon"]; err != nil {
		return err
	}
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	s.requests = append(s.requests, string(data))
	return c.Patch(ctx, o, patch, options...)
}

func (s *scene) patchProxy(
	ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	s.changes++
	if err := s.fail["patch proxy"]; err != nil {
		return err
	}
	return c.Patch(ctx, o, patch, options...)
}

func (s *scene) remove(
	ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption,
) error {
	asked := (&client.DeleteOptions{}).ApplyOptions(options)
	s.requests = append(s.requests, fmt.Sprintf("delete %s %s", *asked.Preconditions.UID, *asked.PropagationPolicy))
	return c.Delete(ctx, o, options...)
}

func (s *scene) reconcile() (reconcile.Result, error) {
	return s.reconciler.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(proxy())})
}

// now returns the proxy, or nil if it is gone.
func (s *scene) now() *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{}
	err := s.source.Get(s.t.Context(), client.ObjectKeyFromObject(proxy()), pod)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// expectEvents wants events with these reasons, and no others.
func (s *scene) expectEvents(reasons ...string) {
	s.t.Helper()
	var got []string
	for len(s.recorder.Events) > 0 {
		got = append(got, strings.Fields(<-s.recorder.Events)[1])
	}
	if !slices.Equal(got, reasons) {
		s.t.Errorf("events %v, want %v", got, reasons)
	}
}

// expectRequests wants requests to the target that contain these texts, and no others.
func (s *scene) expectRequests(texts ...string) {
	s.t.Helper()
	if len(s.requests) != len(texts) {
		s.t.Fatalf("requests %v, want %v", s.requests, texts)
	}
	for i, text := range texts {
		if !strings.Contains(s.requests[i], text) {
			s.t.Errorf("request %s, want %s", s.requests[i], text)
		}
	}
	s.requests = nil
}

// ours is the PodChaperon of a proxy as this version makes it, with the labels by which the cache selects.
func ours(changes ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	c := chaperon()
	c.Labels[v1alpha1.LabelParentClusterID], c.Labels[v1alpha1.LabelTargetHash] = "id", "hash"
	c.Annotations[v1alpha1.AnnotationRevision] = "0-" + translate.Fingerprint(proxy())
	for _, change := range changes {
		change(&c)
	}
	return &c
}

func withoutLabel(key string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) { delete(c.Labels, key) }
}

const askedFor = "deletion-grace-period"

func TestTheStatusOfADelegateIsShown(t *testing.T) {
	s := newScene(t, proxy(phase(corev1.PodPending)), ours())
	if result, err := s.reconcile(); err != nil || result.RequeueAfter != 0 {
		t.Errorf("result %v, error %v", result, err)
	}
	if got := s.now().Status.Phase; got != corev1.PodRunning {
		t.Errorf("phase %s", got)
	}
	s.expectRequests()
	s.expectEvents()
}

func TestNothingIsDoneWhileTheTargetIsLost(t *testing.T) {
	s := newScene(t, proxy(phase(corev1.PodPending)), ours(ofAnother))
	engage.NewRegistry().Lose(s.engaged)
	if _, err := s.reconcile(); err != nil {
		t.Error(err)
	}
	if got := s.now().Status.Phase; got != corev1.PodPending {
		t.Errorf("phase %s", got)
	}
	s.expectRequests()
}

func TestOrphansEnd(t *testing.T) {
	next := proxy(func(p *corev1.Pod) { p.UID = "2" })
	notAProxy := proxy(phase(corev1.PodPending), func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" })
	for name, test := range map[string]struct {
		proxy  *corev1.Pod // as the API server has it, or nil
		cached bool        // as it is, or not at all
		fail   string
		ends   bool
	}{
		"no pod has the name":                      {ends: true},
		"another pod has the name":                 {proxy: next, cached: true, ends: true},
		"the pod of the name is no proxy any more": {proxy: notAProxy, cached: true},
		"the cache lacks the proxy":                {proxy: proxy()},
		"nobody knows whether there is a proxy":    {fail: "live proxy"},
		"the proxy cannot be read":                 {fail: "get proxy"},
		"the PodChaperons cannot be read":          {fail: "list chaperons"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{ours()}
			if test.proxy != nil {
				objects = append(objects, test.proxy)
			}
			s := newScene(t, objects...)
			if !test.cached {
				s.cachedProxy = func() *corev1.Pod { return nil }
			}
			if test.fail != "" {
				s.fail[test.fail] = errDown
			}
			if _, err := s.reconcile(); (err != nil) != (test.fail != "") {
				t.Errorf("error %v", err)
			}
			if !test.ends {
				s.expectRequests()
				if now := s.now(); test.proxy != nil && now.Status.Phase != test.proxy.Status.Phase {
					t.Errorf("the pod got the status of the delegate: %s", now.Status.Phase)
				}
				return
			}
			s.expectRequests(askedFor)
		})
	}
}

func TestADelegateThatDoesNotEndIsLeftToTheGarbageCollector(t *testing.T) {
	for name, test := range map[string]struct {
		chaperon *v1alpha1.PodChaperon
		first    []string
	}{
		"nobody asked before":   {ours(), []string{askedFor}},
		"an earlier leader did": {ours(toEnd("")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.chaperon)
			reconcile := func(wait time.Duration, requests ...string) {
				t.Helper()
				if result, err := s.reconcile(); err != nil || result.RequeueAfter != wait {
					t.Errorf("result %v, error %v, want %s", result, err, wait)
				}
				s.expectRequests(requests...)
			}
			reconcile(timeouts.ManagerPatience, test.first...)
			s.clock.SetTime(s.clock.Now().Add(timeouts.ManagerPatience - time.Second))
			reconcile(time.Second)
			s.clock.SetTime(s.clock.Now().Add(time.Second))
			reconcile(timeouts.ManagerPatience, "delete c1 Foreground")
		})
	}
	t.Run("a request that fails is made again", func(t *testing.T) {
		s := newScene(t, ours())
		s.fail["patch chaperon"] = errDown
		if _, err := s.reconcile(); err == nil {
			t.Error("no error")
		}
		delete(s.fail, "patch chaperon")
		if _, err := s.reconcile(); err != nil {
			t.Error(err)
		}
		s.expectRequests(askedFor)
	})
}

func TestTheNextDecisionIsThatOfTheFirstDelegateToWaitFor(t *testing.T) {
	first, second := ours(), ours(func(c *v1alpha1.PodChaperon) {
		c.Name, c.UID = "later", "c2"
		c.Labels[v1alpha1.LabelParentUID] = "0" // an earlier proxy of the name
	})
	s := newScene(t, first)
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	s.clock.SetTime(s.clock.Now().Add(20 * time.Second))
	for _, both := range [][]v1alpha1.PodChaperon{{*first, *second}, {*second, *first}} {
		s.cachedChaperons = func() []v1alpha1.PodChaperon { return both }
		if err := s.target.Create(t.Context(), second.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		result, err := s.reconcile()
		if want := timeouts.ManagerPatience - 20*time.Second; err != nil || result.RequeueAfter != want {
			t.Errorf("result %v, error %v, want %s", result, err, want)
		}
	}
}

func TestAProxyWithoutPodChaperon(t *testing.T) {
	forged := &gate.ForgedError{Kind: "PodChaperon", Reason: "no proof"}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "podchaperons"}, "web", errDown)
	for name, test := range map[string]struct {
		chaperon *v1alpha1.PodChaperon // as the API server has it, or nil
		fail     error                 // of the live read
		patch    error                 // of the labels
		confirm  error
		failed   bool
		stays    bool
		events   []string
		requests []string
	}{
		"it was deleted":                 {events: []string{ReasonDelegateLost}},
		"the cache lags":                 {chaperon: ours(), stays: true},
		"the API server does not answer": {fail: errDown, failed: true, stays: true},
		"the API server forbids to look": {fail: forbidden, failed: true, stays: true},
		"another one made it": {
			fail: forged, failed: true, stays: true, events: []string{ReasonDelegateUnclear},
		},
		"the target was set back": {confirm: errDown, failed: true, stays: true},
		"it lost the label of the cluster": {
			chaperon: ours(withoutLabel(v1alpha1.LabelParentClusterID)), stays: true,
			events: []string{ReasonDelegateLabelled}, requests: []string{v1alpha1.LabelParentClusterID},
		},
		"it lost the label of the target": {
			chaperon: ours(withoutLabel(v1alpha1.LabelTargetHash)), stays: true,
			events: []string{ReasonDelegateLabelled}, requests: []string{v1alpha1.LabelTargetHash},
		},
		"it cannot get the label back": {
			chaperon: ours(withoutLabel(v1alpha1.LabelTargetHash)), patch: forbidden, stays: true, failed: true,
			events: []string{ReasonDelegateUnclear},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{proxy()}
			if test.chaperon != nil {
				objects = append(objects, test.chaperon)
			}
			s := newScene(t, objects...)
			s.cachedChaperons = func() []v1alpha1.PodChaperon { return nil }
			s.engaged.Confirms = func(context.Context) error { return test.confirm }
			s.fail["live chaperon"], s.fail["patch chaperon"] = test.fail, test.patch
			result, err := s.reconcile()
			if (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
			if stays := s.now() != nil; stays != test.stays {
				t.Errorf("the proxy stays: %v", stays)
			}
			if again := result.RequeueAfter > 0; again != (test.stays && !test.failed) {
				t.Errorf("it is looked at again: %v", again) // There may be no event.
			}
			s.expectEvents(test.events...)
			s.expectRequests(test.requests...)
		})
	}
}

func TestATargetOfAnotherNamespaceIsNotAsked(t *testing.T) {
	s := newScene(t, proxy())
	s.engaged.Key = types.NamespacedName{Namespace: "other", Name: "c2"}
	s.fail["live chaperon"] = errDown
	if _, err := s.reconcile(); err != nil || s.now() != nil {
		t.Errorf("error %v; the proxy is %v", err, s.now())
	}
}

func TestANamespaceThatTheTargetForbids(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "podchaperons"}, "", errDown)
	for name, test := range map[string]struct {
		proxy  *corev1.Pod
		failed bool
		events []string
	}{
		"the proxy is there":        {proxy(), true, []string{ReasonDelegateUnclear}},
		"the proxy is not bound":    {proxy(boundTo("")), false, nil},
		"the proxy is in another":   {proxy(boundTo("admiralty-c3")), false, nil},
		"there is no proxy of that": {nil, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if test.proxy != nil {
				s = newScene(t, test.proxy)
			}
			s.fail["list chaperons"] = forbidden
			if _, err := s.reconcile(); (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
			if test.proxy != nil && s.now() == nil {
				t.Error("the proxy is gone")
			}
			s.expectEvents(test.events...)
		})
	}
}

// TestANamespaceThatTheTargetForbidsAndWhereNothingIsLeft is about namespaces that were deleted in the target.
func TestANamespaceThatTheTargetForbidsAndWhereNothingIsLeft(t *testing.T) {
	unconfirmed := func(context.Context) error { return errDown }
	for name, test := range map[string]struct {
		proxy    *corev1.Pod
		confirms func(context.Context) error
		failed   bool
		gone     bool
		events   []string
	}{
		"the proxy goes":                          {proxy(), nil, false, true, []string{ReasonDelegateLost}},
		"the target may have been set back":       {proxy(), unconfirmed, true, false, nil},
		"a proxy that has finished stays":         {proxy(phase(corev1.PodSucceeded)), nil, false, false, nil},
		"a proxy that is being deleted goes, too": {proxy(terminating(30)), nil, false, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if test.proxy.DeletionTimestamp != nil {
				test.proxy.Finalizers = []string{"example.org/held"}
			}
			s := newScene(t, test.proxy)
			forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "podchaperons"}, "", errDown)
			s.fail["list chaperons"], s.fail["live chaperon"] = forbidden, forbidden
			s.engaged.FindsPod = func(context.Context, types.NamespacedName) (bool, error) { return false, forbidden }
			s.engaged.FindsNothing = func(namespace string) bool { return namespace == test.proxy.Namespace }
			s.engaged.Confirms = test.confirms
			if _, err := s.reconcile(); (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
			if now := s.now(); (now == nil || now.Status.Phase == corev1.PodFailed) != test.gone {
				t.Errorf("the proxy is %+v", now)
			}
			s.expectEvents(test.events...)
		})
	}
}

func TestThePodChaperonGetsItsMarks(t *testing.T) {
	s := newScene(t, proxy(), ours())
	s.keys = proof.Generate(time.Unix(1000, 0))
	for range 2 { // The second time, it has them.
		if _, err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	s.expectRequests(v1alpha1.AnnotationProof)
	for name, test := range map[string]struct {
		err    error
		failed bool
	}{
		"the target does not answer": {errDown, true},
		"the PodChaperon is gone":    {apierrors.NewNotFound(schema.GroupResource{}, "web"), false},
		"another is in its place":    {apierrors.NewConflict(schema.GroupResource{}, "web", errDown), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, proxy(), ours())
			s.keys = proof.Generate(time.Unix(1000, 0))
			s.fail["patch chaperon"] = test.err
			if _, err := s.reconcile(); (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
		})
	}
}
