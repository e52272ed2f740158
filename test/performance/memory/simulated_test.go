package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// target starts a simulated target with a ClusterSummary and one PodChaperon.
func target(t *testing.T) (*rest.Config, *log, *v1alpha1.PodChaperon) {
	t.Helper()
	proxy, err := newProxy(7, "admiralty-c2", following{})
	if err != nil {
		t.Fatal(err)
	}
	proxy.UID = "12345678-9abc"
	c, err := contentOf(types.NamespacedName{Name: "c2"}, []*corev1.Pod{proxy})
	if err != nil {
		t.Fatal(err)
	}
	file, s := filepath.Join(t.TempDir(), "c2"), simulated{newStore(), newLog()}
	if err := errors.Join(c.write(file), s.load(file)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	return config, s.log, c["podchaperons"][0].(*v1alpha1.PodChaperon)
}

func TestASimulatedTargetFillsACache(t *testing.T) {
	config, log, want := target(t)
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) { // The cache cannot be read before it has started.
		t.Fatal("the cache does not sync")
	}
	chaperons, summary := &v1alpha1.PodChaperonList{}, &v1alpha1.ClusterSummary{}
	if err := c.List(ctx, chaperons); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterSummaryName}, summary); err != nil {
		t.Fatal(err)
	}
	if len(chaperons.Items) != 1 {
		t.Fatalf("got %d PodChaperons, want %s", len(chaperons.Items), want.Name)
	}
	if got := chaperons.Items[0]; got.Name != want.Name || got.Status.Phase != want.Status.Phase {
		t.Errorf("got PodChaperon %s, %s; want %s, %s", got.Name, got.Status.Phase, want.Name, want.Status.Phase)
	}
	if len(summary.Status.Classes) != classes || len(summary.Status.Classes[0].Free) != vectors {
		t.Errorf("got a summary of %d classes, want %d", len(summary.Status.Classes), classes)
	}
	log.mu.Lock()
	if log.state.Watches["podchaperons"] != 1 || len(log.state.Unexpected) > 0 {
		t.Errorf("got %+v, want one watch and nothing unexpected", log.state)
	}
	log.mu.Unlock()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestARequestThatIsNotSimulatedIsReported(t *testing.T) {
	config, log, _ := target(t)
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := testrestmapper.TestOnlyStaticRESTMapper(scheme)
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	if err := c.Delete(t.Context(), node); !apierrors.IsNotFound(err) {
		t.Errorf("deleting: got %v, want NotFound, as nodes are not simulated", err)
	}
	want := []string{"DELETE /api/v1/nodes/n1"}
	if diff := cmp.Diff(want, log.state.Unexpected); diff != "" {
		t.Errorf("unexpected requests (-want +got):\n%s", diff)
	}
}

func TestMemoryIsSteadyWhenItsLastReadingsAreAboutEqual(t *testing.T) {
	for name, test := range map[string]struct {
		readings []float64
		want     bool
	}{
		"too few readings":                      {[]float64{100, 100}, false},
		"equal readings":                        {[]float64{50, 100, 100, 100}, true},
		"readings about equal, up and down":     {[]float64{100, 101, 99.5}, true},
		"readings that fall a little each time": {[]float64{104, 102, 100}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := steady(test.readings, 3); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
