package chaperons

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// others is the cache of other kinds.
type others struct {
	cache.Cache

	asked []string
}

func (o *others) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	o.asked = append(o.asked, "get")
	return nil
}

func (o *others) List(context.Context, client.ObjectList, ...client.ListOption) error {
	o.asked = append(o.asked, "list")
	return nil
}

func (o *others) GetInformer(
	context.Context, client.Object, ...cache.InformerGetOption,
) (cache.Informer, error) {
	o.asked = append(o.asked, "informer")
	return nil, nil //nolint:nilnil // Nobody uses it.
}

func TestOtherKindsAreReadFromTheOtherCache(t *testing.T) {
	o := &others{}
	c := New(t.Context(), o, nil, clocktesting.NewFakeClock(time.Now()), nil)
	key := client.ObjectKey{Namespace: "a", Name: "a1"}
	must(t, c.Get(t.Context(), key, &corev1.Service{}))
	must(t, c.List(t.Context(), &corev1.ServiceList{}, client.InNamespace("a")))
	_, err := c.GetInformer(t.Context(), &corev1.Service{})
	must(t, err)
	if !slices.Equal(o.asked, []string{"get", "list", "informer"}) {
		t.Errorf("it was asked to %q", o.asked)
	}
}

func TestANamespaceIsWatchedFromTheFirstCreateOn(t *testing.T) {
	s, c := newServer(t)
	scheme := runtime.NewScheme()
	must(t, corev1.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	writer := c.Writer(fake.NewClientBuilder().WithScheme(scheme).Build())
	service := &corev1.Service{}
	service.Namespace, service.Name = "idle", "web"
	must(t, writer.Create(t.Context(), service))
	must(t, writer.Create(t.Context(), chaperon("a", "a1")))
	must(t, writer.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "a1"}, &v1alpha1.PodChaperon{}))
	expect(t, "it is watched", true, c.Watches("a"))
	expect(t, "a namespace without PodChaperons is watched", false, c.Watches("idle"))
	j := &journal{}
	handle(t, c, j)
	s.in("a").Add(chaperon("a", "a1"))
	waittest.Succeeds(t, j.has("seen a1"))
	expect(t, "requests in a namespace without PodChaperons", 0, s.asked("idle"))
}

func TestANamespaceThatCannotBeWatched(t *testing.T) {
	failed := errors.New("no cache can be made")
	life, end := context.WithCancel(t.Context())
	c := New(life, nil, func(string, func(toolscache.ListerWatcher) toolscache.ListerWatcher) (cache.Cache, error) {
		return nil, failed
	}, clocktesting.NewFakeClock(time.Now()), nil)
	scheme := runtime.NewScheme()
	must(t, v1alpha1.AddToScheme(scheme))
	to := fake.NewClientBuilder().WithScheme(scheme).Build()
	if err := c.Writer(to).Create(t.Context(), chaperon("a", "a1")); !errors.Is(err, failed) {
		t.Errorf("error is %v, want %v", err, failed)
	}
	if err := to.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "a1"}, &v1alpha1.PodChaperon{}); err == nil {
		t.Error("a PodChaperon is created that nobody would watch")
	}
	expect(t, "it is listed", false, c.Listed("a"))
	expect(t, "it is watched", false, c.Watches("a"))
	informer, err := c.GetInformer(t.Context(), &v1alpha1.PodChaperon{})
	must(t, err)
	expect(t, "the informer has stopped", false, informer.IsStopped())
	end()
	expect(t, "the informer has stopped at the end", true, informer.IsStopped())
}

func TestAWatchWithoutAListIsNotAskedForAfterARefusal(t *testing.T) {
	refusal := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("podchaperons").GroupResource(), "", nil)
	for name, test := range map[string]struct {
		last    error // the last answer
		options metav1.ListOptions
		asks    bool
	}{
		"after a refusal":                 {refusal, metav1.ListOptions{}, false},
		"from a version that was listed":  {refusal, metav1.ListOptions{ResourceVersion: "5"}, true},
		"a watch that begins with a list": {refusal, metav1.ListOptions{SendInitialEvents: new(true)}, true},
		"nothing was refused":             {nil, metav1.ListOptions{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, asked := newPatience(clocktesting.NewFakeClock(time.Now())), false
			p.note(test.last)
			p.end() // There is no pause.
			wrapped := p.wrap(&toolscache.ListWatch{
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
					asked = true
					return nil, nil //nolint:nilnil // Nobody uses it.
				},
			}, func(context.Context) bool { return true })
			_, err := toolscache.ToWatcherWithContext(wrapped).WatchWithContext(t.Context(), test.options)
			if asked != test.asks || (err == nil) != test.asks {
				t.Errorf("the target is asked: %t, and the answer is %v", asked, err)
			}
		})
	}
}
