package chaperons

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	j := &journal{}
	handle(t, c, j)
	s.in("a").Add(chaperon("a", "a1"))
	waittest.Succeeds(t, j.has("seen a1"))
	expect(t, "requests in a namespace without PodChaperons", 0, s.asked("idle"))
}
