package chaperons

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// server is a target's API server.
type server struct {
	t     *testing.T
	clock *clocktesting.FakeClock

	mu         sync.Mutex // guards the fields below
	namespaces map[string]*fcache.FakeControllerSource
	refused    map[string]bool
	nothing    map[string]bool // what the target says of namespaces that it refuses
	requests   map[string]int
}

func newServer(t *testing.T) (*server, *Cache) {
	t.Helper()
	s := &server{
		t: t, clock: clocktesting.NewFakeClock(time.Now()), namespaces: map[string]*fcache.FakeControllerSource{},
		refused: map[string]bool{}, nothing: map[string]bool{}, requests: map[string]int{},
	}
	return s, New(t.Context(), nil, s.cache, s.clock, s.nothingIn)
}

func (s *server) nothingIn(_ context.Context, namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nothing[namespace]
}

// empty has the target say of a namespace, which it refuses, that it has nothing there.
func (s *server) empty(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nothing[namespace] = true
}

func (s *server) in(namespace string) *fcache.FakeControllerSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.namespaces[namespace] == nil {
		s.namespaces[namespace] = fcache.NewFakeControllerSource()
	}
	return s.namespaces[namespace]
}

func (s *server) refuse(namespace string, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[namespace] = refused
}

func (s *server) answer(namespace string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[namespace]++
	if s.refused[namespace] {
		return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("podchaperons").GroupResource(), "", nil)
	}
	return nil
}

func (s *server) asked(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[namespace]
}

// cache is a Maker.
func (s *server) cache(
	namespace string, wrap func(toolscache.ListerWatcher) toolscache.ListerWatcher,
) (cache.Cache, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("PodChaperon"), meta.RESTScopeNamespace)
	lw := &listerWatcher{toolscache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if err := s.answer(namespace); err != nil {
				return nil, err
			}
			return s.in(namespace).List(o)
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			if err := s.answer(namespace); err != nil {
				return nil, err
			}
			return s.in(namespace).Watch(o)
		},
	}, true}
	c, err := cache.New(&rest.Config{}, cache.Options{
		Scheme: scheme, Mapper: mapper,
		NewInformer: func(
			_ toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(wrap(lw), kind, resync, indexers)
		},
	})
	if err != nil {
		return nil, err
	}
	return c, c.IndexField(s.t.Context(), &v1alpha1.PodChaperon{}, engage.IndexParent, func(o client.Object) []string {
		return []string{o.GetNamespace() + "/" + o.GetAnnotations()["parent"]}
	})
}

func chaperon(namespace, name string) *v1alpha1.PodChaperon {
	c := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(name), Annotations: map[string]string{"parent": "p-" + name},
	}}
	return c
}

// journal has the events of a handler.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) handler() toolscache.ResourceEventHandler {
	add := func(what string) func(*v1alpha1.PodChaperon) {
		return func(c *v1alpha1.PodChaperon) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.entries = append(j.entries, what+" "+c.Name)
		}
	}
	return watch.On(add("seen"), add("gone"))
}

func (j *journal) has(entries ...string) func() error {
	return func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		got := slices.Sorted(slices.Values(j.entries))
		if !slices.Equal(got, entries) {
			return fmt.Errorf("events are %q, want %q", got, entries)
		}
		return nil
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func handle(t *testing.T, c *Cache, j *journal) (cache.Informer, toolscache.ResourceEventHandlerRegistration) {
	t.Helper()
	informer, err := c.GetInformer(t.Context(), &v1alpha1.PodChaperon{})
	must(t, err)
	registration, err := informer.AddEventHandler(j.handler())
	must(t, err)
	return informer, registration
}

func names(t *testing.T, c *Cache, opts ...client.ListOption) []string {
	t.Helper()
	list := &v1alpha1.PodChaperonList{}
	must(t, c.List(t.Context(), list, opts...))
	var found []string
	for i := range list.Items {
		found = append(found, list.Items[i].Name)
	}
	slices.Sort(found)
	return found
}

func expect(t *testing.T, what string, want, got any) {
	t.Helper()
	if fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestHandlersGetTheEventsOfNamespacesThatAreAddedLater(t *testing.T) {
	s, c := newServer(t)
	s.in("a").Add(chaperon("a", "a1"))
	s.in("b").Add(chaperon("b", "b1"))
	s.in("idle").Add(chaperon("idle", "idle1"))
	must(t, c.Watch(t.Context(), []string{"a"}))
	j, removed := &journal{}, &journal{}
	_, registration := handle(t, c, j)
	informer, other := handle(t, c, removed)
	toolscache.WaitFor(t.Context(), "", registration.HasSyncedChecker(), other.HasSyncedChecker())
	must(t, j.has("seen a1")()) // Those that are there have been seen when the handler has synced.
	must(t, informer.RemoveEventHandler(other))

	expect(t, "by the proxy", []string{"b1"}, names(t, c, client.MatchingFields{engage.IndexParent: "b/p-b1"}))
	expect(t, "in a namespace", []string{"b1"}, names(t, c, client.InNamespace("b")))
	expect(t, "everywhere", []string{"a1", "b1"}, names(t, c))
	must(t, c.Get(t.Context(), types.NamespacedName{Namespace: "a", Name: "a1"}, &v1alpha1.PodChaperon{}))
	waittest.Succeeds(t, j.has("seen a1", "seen b1"))
	s.in("a").Delete(chaperon("a", "a1"))
	waittest.Succeeds(t, j.has("gone a1", "seen a1", "seen b1"))
	must(t, removed.has("seen a1")())
	expect(t, "requests in a namespace that nobody uses", 0, s.asked("idle"))
}

func TestNobodyTakesARefusalForTheEndOfAPodChaperon(t *testing.T) {
	s, c := newServer(t)
	s.in("a").Add(chaperon("a", "a1"))
	s.refuse("never", true)
	must(t, c.Watch(t.Context(), []string{"a", "never"})) // One that is refused keeps nobody waiting.
	j := &journal{}
	handle(t, c, j)
	waittest.Succeeds(t, j.has("seen a1"))

	for what, err := range map[string]error{
		"get": c.Get(t.Context(), types.NamespacedName{Namespace: "never", Name: "x"}, &v1alpha1.PodChaperon{}),
		"list": c.List(t.Context(), &v1alpha1.PodChaperonList{},
			client.MatchingFields{engage.IndexParent: "never/p-x"}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s in a namespace that was never listed: %v, want the refusal", what, err)
		}
	}

	s.refuse("a", true)
	s.in("a").DeleteDropWatch(chaperon("a", "a1"))
	s.in("a").ResetWatch()
	waittest.Succeeds(t, func() error {
		if _, refused := c.namespaces["a"].patience.refusal(); refused == nil {
			return errors.New("it is not asked again")
		}
		return nil
	})
	expect(t, "kept", []string{"a1"}, names(t, c))
	must(t, j.has("seen a1")())

	s.refuse("a", false)
	c.Granted([]string{"a"})
	waittest.Succeeds(t, j.has("gone a1", "seen a1")) // Now the target itself says so.
}

func TestARefusedNamespaceIsEmptyIfTheTargetSaysSo(t *testing.T) {
	s, c := newServer(t)
	s.in("a").Add(chaperon("a", "a1"))
	must(t, c.Watch(t.Context(), []string{"a"}))
	j := &journal{}
	handle(t, c, j)
	waittest.Succeeds(t, j.has("seen a1"))

	s.refuse("a", true)
	s.in("a").DeleteDropWatch(chaperon("a", "a1"))
	s.empty("a")
	s.in("a").ResetWatch()
	waittest.Succeeds(t, func() error {
		c.Granted([]string{"a"}) // It asks again.
		return j.has("gone a1", "seen a1")()
	})
	expect(t, "known", 0, len(names(t, c, client.InNamespace("a"))))

	s.refuse("a", false)
	s.in("a").Add(chaperon("a", "a2"))
	waittest.Succeeds(t, func() error {
		c.Granted([]string{"a"})
		return j.has("gone a1", "seen a1", "seen a2")()
	})
}

func TestANamespaceIsListedWhenTheHandlersHaveSeenItsPodChaperons(t *testing.T) {
	s, c := newServer(t)
	s.in("granted").Add(chaperon("granted", "g1"))
	s.in("later").Add(chaperon("later", "l1"))
	s.refuse("later", true)
	seen, goOn := make(chan string), make(chan struct{})
	informer, err := c.GetInformer(t.Context(), &v1alpha1.PodChaperon{})
	must(t, err)
	_, err = informer.AddEventHandler(watch.On(func(c *v1alpha1.PodChaperon) {
		seen <- c.Name
		<-goOn
	}, nil))
	must(t, err)
	must(t, c.Watch(t.Context(), []string{"later"}))
	listed := func(namespace string) func() error {
		return func() error {
			if !c.Listed(namespace) {
				return errors.New("it is not listed")
			}
			return nil
		}
	}
	expect(t, "a namespace that nobody used is listed", false, c.Listed("granted"))
	expect(t, "seen", "g1", waittest.Receive(t, "the PodChaperon", seen)) // It is watched from then on.
	expect(t, "it is listed while the handler is at work", false, c.Listed("granted"))
	goOn <- struct{}{}
	waittest.Succeeds(t, listed("granted"))

	expect(t, "a namespace that is refused is listed", false, c.Listed("later"))
	s.refuse("later", false)
	c.Granted([]string{"later"})
	expect(t, "seen", "l1", waittest.Receive(t, "the PodChaperon", seen))
	goOn <- struct{}{}
	waittest.Succeeds(t, listed("later"))
	s.refuse("later", true)
	s.in("later").ResetWatch()
	waittest.Succeeds(t, func() error {
		if _, refused := c.namespaces["later"].patience.refusal(); refused == nil {
			return errors.New("it is not asked again")
		}
		return nil
	})
	must(t, listed("later")()) // Its PodChaperons of before are known.
}

func TestAPauseAfterEachRefusalDoubles(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	p := newPatience(clock)
	requests := make(chan error)
	refused := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("podchaperons").GroupResource(), "", nil)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			_ = p.ask(ctx, func() error { return <-requests })
		}
	}()
	answer := func(with error) {
		t.Helper()
		select {
		case requests <- with:
		case <-time.After(time.Minute):
			t.Fatal("there is no request")
		}
	}
	pausing := func() error {
		if !clock.HasWaiters() {
			return errors.New("there is no pause")
		}
		return nil
	}
	answer(refused)
	for pause := firstPause; pause < 2*lastPause; pause *= 2 {
		waittest.Succeeds(t, pausing)
		clock.Step(min(pause, lastPause) - time.Millisecond)
		must(t, pausing())
		clock.Step(time.Duration(jitter*float64(pause)) + time.Millisecond)
		answer(refused)
	}
	waittest.Succeeds(t, pausing)
	p.end()
	answer(refused)
	waittest.Succeeds(t, pausing)
	clock.Step(2 * firstPause) // The next pause is the shortest again.
	answer(nil)                // It is granted now.
	answer(refused)            // At once, because the last one was answered.
	waittest.Succeeds(t, pausing)
	clock.Step(firstPause * 2)
	answer(errors.New("another error"))
	expect(t, "the refusal is remembered after another error", true, p.refused != nil)
	stop()
	waittest.Receive(t, "the end", stopped)
}

func TestANamespaceIsForgottenOnlyWhenItIsEmptyAndNotUsed(t *testing.T) {
	s, c := newServer(t)
	j := &journal{}
	handle(t, c, j)
	s.in("full").Add(chaperon("full", "full1"))
	s.refuse("refused", true)
	must(t, c.Watch(t.Context(), []string{"full", "empty", "refused", "needed"}))
	watched := func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Sprint(slices.Sorted(maps.Keys(c.namespaces)))
	}
	keep := func(namespace string) bool { return namespace == "needed" }
	c.Forget(keep)
	expect(t, "watched, just used", "[empty full needed refused]", watched())
	s.clock.Step(forgetAfter)
	must(t, c.Use("refused"))
	forgotten := c.namespaces["empty"]
	c.Forget(keep)
	expect(t, "watched", "[full needed refused]", watched())
	waittest.Succeeds(t, func() error {
		if !forgotten.informer.IsStopped() {
			return errors.New("the watch goes on")
		}
		return nil
	})

	s.in("empty").Add(chaperon("empty", "empty1"))
	expect(t, "in the namespace that is used again", []string{"empty1"}, names(t, c, client.InNamespace("empty")))
	waittest.Succeeds(t, j.has("seen empty1", "seen full1"))

	s.clock.Step(forgetAfter)
	c.Forget(keep)
	expect(t, "watched when the refused one is not used", "[empty full needed]", watched())
}
