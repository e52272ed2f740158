package garbagecollection

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

func TestTheTimeOfACopyBeginsWithTheEndOfTheLastPodChaperon(t *testing.T) {
	for _, resource := range []string{string(needs.Secrets), "services"} {
		t.Run(resource, func(t *testing.T) {
			f := newFixture(t, resource, copyOf("c1", "db"))
			f.reconcile(2 * time.Minute)

			f.clock.Step(time.Minute)
			web := chaperon("c1", "db")
			f.chaperonChanged(f.queue, nil, web)
			f.chaperonChanged(f.queue, nil, chaperon("c2", "db"))
			f.clock.Step(time.Hour)
			f.chaperonChanged(f.queue, web, nil)
			if !slices.Contains(f.drain(), f.key) {
				t.Fatal("the copy is not looked at")
			}
			f.reconcile(2 * time.Minute)

			f.clock.Step(time.Minute)
			f.reconcile(time.Minute)
			f.wantDeleted(false)
			f.clock.Step(time.Minute)
			f.reconcile(0)
			f.wantDeleted(true)
		})
	}
}

func TestACopyThatIsNeededIsNotRemembered(t *testing.T) {
	f := newFixture(t, string(needs.Secrets), copyOf("c1", "db"))
	f.reconcile(2 * time.Minute)
	f.chaperonChanged(f.queue, nil, chaperon("c1", "db"))
	f.clock.Step(time.Hour)
	f.reconcile(0)
	f.wantDeleted(false)
	if len(f.seen) > 0 {
		t.Errorf("remembered: %v", f.seen)
	}
}

func TestACopyThatIsGoneIsForgotten(t *testing.T) {
	f := newFixture(t, string(needs.Secrets), copyOf("c1", "db"))
	f.reconcile(2 * time.Minute)
	f.stores = nil
	f.reconcile(0)
	if len(f.seen) > 0 {
		t.Errorf("remembered: %v", f.seen)
	}
}

func TestAGlobalServiceNeedsNoPods(t *testing.T) {
	service := copyOf("c1", "db")
	service.Annotations[v1alpha1.AnnotationGlobal] = "true"
	newFixture(t, "services", service).reconcile(0)
	newFixture(t, string(needs.Secrets), service).reconcile(2 * time.Minute)
}

func TestWhatStandsInTheWayOfARemoval(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, test := range map[string]struct {
		answer error
		fails  bool
	}{
		"a changed copy is looked at again": {apierrors.NewConflict(secrets, "db", errors.New("changed")), false},
		"a copy that is gone is no error":   {apierrors.NewNotFound(secrets, "db"), false},
		"a missing right is an error":       {apierrors.NewForbidden(secrets, "db", errors.New("no right")), true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, string(needs.Secrets), copyOf("c1", "db"))
			f.fake.PrependReactor(
				"delete",
				"*",
				func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.answer },
			)
			f.reconcile(2 * time.Minute)
			f.clock.Step(2 * time.Minute)
			if _, err := f.Reconcile(t.Context(), f.key); (err != nil) != test.fails {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestASecretOfAnIngressThatTheCacheLacksStays has a watch of Ingresses that lags.
func TestASecretOfAnIngressThatTheCacheLacksStays(t *testing.T) {
	for name, test := range map[string]struct {
		source, namespace, names string
		answer                   error
		stays                    bool
	}{
		"an Ingress names it":              {"c1", "default", "db", nil, true},
		"an Ingress names another one":     {"c1", "default", "web", nil, false},
		"an Ingress of another source":     {"c2", "default", "db", nil, false},
		"an Ingress of another namespace":  {"c1", "other", "db", nil, false},
		"the API server does not say that": {"c2", "default", "db", errors.New("down"), true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, string(needs.Secrets), copyOf("c1", "db"))
			ingress := &networkingv1.Ingress{}
			ingress.Namespace, ingress.Name = test.namespace, "web"
			ingress.Labels = map[string]string{v1alpha1.LabelParentClusterID: test.source}
			ingress.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "first"}, {SecretName: test.names}}
			typed := typedfake.NewClientset(ingress)
			if test.answer != nil {
				typed.PrependReactor("list", "ingresses", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, test.answer
				})
			}
			f.typed = typed
			f.reconcile(timeouts.UnusedCopies)
			f.clock.Step(timeouts.UnusedCopies)
			if _, err := f.Reconcile(t.Context(), f.key); (err != nil) != (test.answer != nil) {
				t.Errorf("error %v", err)
			}
			f.wantDeleted(!test.stays)
			if test.stays && len(f.seen) > 0 {
				t.Error("its grace time does not begin anew")
			}
		})
	}
}

func TestUpdatesOfThePodChaperonsStatusAreNotCounted(t *testing.T) {
	f := newFixture(t, string(needs.Secrets), copyOf("c1", "db"))
	before, after := chaperon("c1", "db"), chaperon("c1", "other")
	f.chaperonChanged(f.queue, nil, before)
	f.chaperonChanged(f.queue, before, after) // Impossible without a new generation, so it shows that nobody looked.
	if !f.uses.inUse(objectUse{"c1", "default", "secrets", "db"}) {
		t.Error("the spec was looked at")
	}
	after.Generation++
	f.chaperonChanged(f.queue, before, after)
	if f.uses.inUse(objectUse{"c1", "default", "secrets", "db"}) {
		t.Error("a new spec was not looked at")
	}
}

func TestATLSSecretIsNeededWhileItsIngressIsThere(t *testing.T) {
	f := newFixture(t, string(needs.Secrets), copyOf("c1", "db"))
	ingress := &networkingv1.Ingress{ObjectMeta: copyOf("c1", "web").ObjectMeta}
	ingress.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "other"}, {SecretName: "db"}, {SecretName: "db"}, {}}
	before, err := slimCopy(ingress)
	if err != nil {
		t.Fatal(err)
	}
	ingress.Spec.TLS = ingress.Spec.TLS[:1]
	after, err := slimCopy(ingress)
	if err != nil {
		t.Fatal(err)
	}
	kept, ok := before.(*metav1.PartialObjectMetadata)
	if !ok || kept.Annotations[annotationSecrets] != "other,db" {
		t.Errorf("the cache keeps %v, want each Secret once", before)
	}
	if again, err := slimCopy(before); again != before || err != nil {
		t.Errorf("kept %v, error %v; want no change", again, err) // Informers may do so twice.
	}
	f.copyChanged(f.queue, ingresses(), nil, before)
	f.reconcile(0)
	f.drain()
	f.copyChanged(f.queue, ingresses(), before, after)
	if !slices.Contains(f.drain(), f.key) {
		t.Error("the Secret that the Ingress names no longer is not looked at")
	}
	f.reconcile(2 * time.Minute)
	f.copyChanged(f.queue, ingresses(), toolscache.DeletedFinalStateUnknown{Obj: after}, nil)
	if len(f.uses.count) > 0 {
		t.Errorf("left over: %v", f.uses.count)
	}
}

func TestSlimKeepsWhatIsRead(t *testing.T) {
	whole := copyOf("c1", "db")
	want := whole.DeepCopy()
	whole.Labels["team"], whole.Annotations["note"] = "a", "b"
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	got, err := slimCopy(whole)
	if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

func TestWhatIsWatched(t *testing.T) {
	f := newFixture(t, string(needs.Secrets), copyOf("c1", "db"))
	f.options.SecretNamespaces = []string{"a", "b"}
	for _, kind := range copyKinds() {
		want := []string{metav1.NamespaceAll}
		if kind.Resource == string(needs.Secrets) {
			want = f.options.SecretNamespaces
		}
		if got := f.namespaces(kind); !slices.Equal(got, want) {
			t.Errorf("%s of the namespaces %q are watched, want %q", kind.Resource, got, want)
		}
		slim, err := slimmed(kind)(copyOf("c1", "db"))
		if err != nil {
			t.Fatal(err)
		}
		kept, ok := slim.(*metav1.PartialObjectMetadata)
		if !ok {
			t.Fatalf("%s: the cache keeps %v", kind.Resource, slim)
		}
		_, noted := kept.Annotations[annotationAdditions]
		if want := kind == serviceAccounts(); noted != want {
			t.Errorf("%s: it is noted whether somebody added something: %t, want %t", kind.Resource, noted, want)
		}
	}
}

// fixture is a Remover that sees one copy.
type fixture struct {
	*Remover

	t     *testing.T
	clock *clocktesting.FakeClock
	fake  *fake.FakeMetadataClient
	queue copyQueue
	key   copyKey
}

func newFixture(t *testing.T, resource string, object *metav1.PartialObjectMetadata) *fixture {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	f := &fixture{t: t, clock: clock, fake: fake.NewSimpleMetadataClient(fake.NewTestScheme())}
	f.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[copyKey]())
	t.Cleanup(f.queue.ShutDown)
	f.Remover = &Remover{
		options: Options{Clock: clock, Grace: timeouts.UnusedCopies}, client: f.fake, uses: newUseCounter(),
		typed:  typedfake.NewClientset(),
		stores: map[copyKind][]toolscache.Indexer{}, seen: map[copyKey]sighting{},
	}
	newStore := func() toolscache.Indexer {
		return toolscache.NewIndexer(
			toolscache.MetaNamespaceKeyFunc,
			toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc},
		)
	}
	store := newStore()
	if err := store.Add(object); err != nil {
		t.Fatal(err)
	}
	for _, of := range copyKinds() {
		if of.Resource == resource {
			f.key = copyKey{of, types.NamespacedName{Namespace: object.Namespace, Name: object.Name}}
			f.stores[of] = []toolscache.Indexer{newStore(), store} // as with two namespaces
		}
	}
	f.fake.PrependReactor(
		"delete",
		"*",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil },
	)
	return f
}

func (f *fixture) drain() []copyKey {
	var keys []copyKey
	for f.queue.Len() > 0 {
		k, _ := f.queue.Get()
		f.queue.Done(k)
		keys = append(keys, k)
	}
	return keys
}

func (f *fixture) reconcile(wait time.Duration) {
	f.t.Helper()
	result, err := f.Reconcile(f.t.Context(), f.key)
	if err != nil || result.RequeueAfter != wait {
		f.t.Fatalf("waits %s, error %v; want %s", result.RequeueAfter, err, wait)
	}
}

func (f *fixture) wantDeleted(want bool) {
	f.t.Helper()
	deleted := false
	for _, action := range f.fake.Actions() {
		if action, ok := action.(clienttesting.DeleteActionImpl); ok {
			deleted = true
			p := action.DeleteOptions.Preconditions
			if p == nil || p.UID == nil || *p.UID != "uid" || p.ResourceVersion == nil || *p.ResourceVersion != "7" {
				f.t.Errorf("deleted with preconditions %v, want UID and resource version", p)
			}
		}
	}
	if deleted != want {
		f.t.Fatalf("deleted: %v, want %v", deleted, want)
	}
}
