package endpoints

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

var errAway = errors.New("the API server is away")

// target is a target cluster whose node uses 10.0.0.9. Endpoints may be in 10.0.0.0/8.
type target struct {
	*Reconciler
	informers *informertest.FakeInformers
	recorder  *events.FakeRecorder
	queue     workqueue.TypedRateLimitingInterface[reconcile.Request]
	// deleted are the options of deletions, which fail with refused unless that is nil. Reads fail with unread.
	deleted         []client.DeleteOptions
	refused, unread error
}

func newTarget(t *testing.T, slices ...client.Object) *target {
	t.Helper()
	inUse := &informertest.FakeInformers{}
	c := &target{
		informers: inUse, recorder: events.NewFakeRecorder(10),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	t.Cleanup(c.queue.ShutDown)
	known := addresses.New(inUse, inUse, "https://192.0.2.1:6443")
	c.Reconciler = New(Options{
		Client: fake.NewClientBuilder().WithObjects(slices...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object,
				options ...client.GetOption,
			) error {
				return errors.Join(c.unread, w.Get(ctx, key, o, options...))
			},
			Delete: func(ctx context.Context, w client.WithWatch, o client.Object,
				options ...client.DeleteOption,
			) error {
				if c.refused != nil {
					return c.refused
				}
				given := client.DeleteOptions{}
				given.ApplyOptions(options)
				c.deleted = append(c.deleted, given)
				return w.Delete(ctx, o, options...)
			},
		}).Build(),
		Addresses: addresses.Endpoints{InUse: known, Ranges: addresses.RangesOf([]string{"10.0.0.0/8"}, "the chart")},
		Recorder:  c.recorder,
	})
	if err := c.changed.Start(t.Context(), c.queue); err != nil {
		t.Fatal(err)
	}
	go func() { _ = known.Start(t.Context()) }()
	if err := known.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.use(t, "10.0.0.9")
	return c
}

// use adds a node with an address.
func (c *target) use(t *testing.T, address string) {
	t.Helper()
	nodes, err := c.informers.FakeInformerFor(t.Context(), &corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "of-" + address}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	nodes.Add(node)
}

func (c *target) reconcile(t *testing.T) error {
	t.Helper()
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(slice("10.1.1.1"))}
	result, err := c.Reconcile(t.Context(), request)
	if result != (reconcile.Result{}) {
		t.Errorf("it is reconciled again: %v", result)
	}
	return err
}

// slice is one that a source wrote.
func slice(address string, changes ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1", UID: "uid", ResourceVersion: "7",
			Labels:      map[string]string{v1alpha1.LabelParentClusterID: "c1", discoveryv1.LabelServiceName: "web"},
			Annotations: map[string]string{v1alpha1.AnnotationFollowedBy: "user"},
		},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.2.2.2"}}, {Addresses: []string{address}}},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func TestWhichEndpointsAreDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		slice *discoveryv1.EndpointSlice
		why   string // empty if it stays
	}{
		"of pods elsewhere":     {slice("10.1.1.1"), ""},
		"of a node":             {slice("10.0.0.9"), "in use by a node"},
		"of the API server":     {slice("192.0.2.1"), "in use by"},
		"outside of the ranges": {slice("203.0.113.1"), "outside of the ranges in the chart"},
		"of a user here":        {slice("10.0.0.9", func(s *discoveryv1.EndpointSlice) { s.Annotations = nil }), ""},
		"without a source":      {slice("10.0.0.9", func(s *discoveryv1.EndpointSlice) { s.Labels = nil }), ""},
		"that are being deleted": {slice("10.0.0.9", func(s *discoveryv1.EndpointSlice) {
			s.DeletionTimestamp, s.Finalizers = new(metav1.Now()), []string{"a.user/waits"}
		}), ""},
		"that are gone": {slice("10.0.0.9", func(s *discoveryv1.EndpointSlice) { s.Name = "web-2" }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, test.slice)
			if err := c.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if test.why == "" {
				if len(c.deleted)+len(c.recorder.Events) > 0 {
					t.Errorf("it is deleted, with %d events", len(c.recorder.Events))
				}
				return
			}
			if len(c.deleted) != 1 || len(c.recorder.Events) != 1 {
				t.Fatalf("there are %d deletions and %d events", len(c.deleted), len(c.recorder.Events))
			}
			want := &metav1.Preconditions{UID: &test.slice.UID, ResourceVersion: new("7")}
			if diff := cmp.Diff(want, c.deleted[0].Preconditions); diff != "" {
				t.Errorf("it is not this very one that is deleted (-want +got):\n%s", diff)
			}
			event := <-c.recorder.Events
			if !strings.HasPrefix(event, "Warning EndpointsRefused") || !strings.Contains(event, test.why) ||
				!strings.Contains(event, `"web-1" of source cluster "c1"`) {
				t.Errorf("the event is %q", event)
			}
		})
	}
}

func TestFailuresAreTriedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		unread, refused error
		events          int
	}{
		"reading":           {errAway, nil, 0},
		"deleting":          {nil, errAway, 0},
		"it is gone by now": {nil, apierrors.NewNotFound(discoveryv1.Resource("endpointslices"), "web-1"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, slice("10.0.0.9"))
			c.unread, c.refused = test.unread, test.refused
			if err := c.reconcile(t); errors.Is(err, errAway) != (test.events == 0) {
				t.Errorf("error is %v", err)
			}
			if got := len(c.recorder.Events); got != test.events {
				t.Errorf("%d events, want %d", got, test.events)
			}
		})
	}
}

func TestNothingIsDeletedBeforeAllAddressesAreKnown(t *testing.T) {
	c := newTarget(t, slice("203.0.113.1"))
	c.options.Addresses.InUse = addresses.New(nil, nil, "")
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := c.Reconcile(ended, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(slice(""))})
	if err == nil || len(c.deleted) > 0 {
		t.Errorf("error is %v, and %d EndpointSlices are deleted", err, len(c.deleted))
	}
}

func TestEndpointsAreLookedAtAgainWhenSomebodyTakesTheirAddress(t *testing.T) {
	c := newTarget(t, slice("10.1.1.1"))
	if err := c.reconcile(t); err != nil {
		t.Fatal(err)
	}
	c.use(t, "10.1.1.1")
	waittest.Eventually(t, "the EndpointSlice is looked at again", func() bool { return c.queue.Len() == 1 })
	if err := c.reconcile(t); err != nil || len(c.deleted) != 1 {
		t.Fatalf("error is %v, and %d EndpointSlices are deleted", err, len(c.deleted))
	}
	request, _ := c.queue.Get()
	c.queue.Done(request)
	if err := c.reconcile(t); err != nil { // It sees that the EndpointSlice is gone.
		t.Fatal(err)
	}
	c.use(t, "10.2.2.2")
	if got := c.queue.Len(); got > 0 {
		t.Errorf("%d EndpointSlices are looked at for an address that only a deleted one had", got)
	}
}

func TestWhatTheCacheKeeps(t *testing.T) {
	kind, by := CacheByObject()
	if _, ok := kind.(*discoveryv1.EndpointSlice); !ok {
		t.Errorf("the kind is %T", kind)
	}
	for label, want := range map[string]bool{v1alpha1.LabelParentClusterID: true, discoveryv1.LabelServiceName: false} {
		if got := by.Label.Matches(labels.Set{label: "x"}); got != want {
			t.Errorf("objects with the label %s: %t", label, got)
		}
	}
	whole := slice("10.1.1.1", func(s *discoveryv1.EndpointSlice) {
		s.Labels["of-a-source"], s.Annotations["of-a-source"] = "large", "large"
		s.Ports = []discoveryv1.EndpointPort{{Name: new("http")}}
		s.Endpoints[0].Hostname = new("large")
		s.DeletionTimestamp = &metav1.Time{}
	})
	want := slice("10.1.1.1", func(s *discoveryv1.EndpointSlice) { s.DeletionTimestamp = &metav1.Time{} })
	kept, err := by.Transform(whole)
	if diff := cmp.Diff(any(want), kept); diff != "" || err != nil {
		t.Errorf("error %v, unexpected object (-want +got):\n%s", err, diff)
	}
	if other, err := by.Transform("no EndpointSlice"); other != "no EndpointSlice" || err != nil {
		t.Errorf("something else becomes %v, with the error %v", other, err)
	}
}
