package env

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/endpoints"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
)

// Run runs start in the background until the test ends or stop is called, which wait until start has returned. An
// error of start fails the test.
func Run(t T, start func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("running: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// RunManager runs a manager with the rights of a login until the test ends or stop is called. Its cache is configured
// as that of the product. register adds the parts under test.
func RunManager(t T, login *rest.Config, register func(ctrl.Manager) error) (stop func()) {
	t.Helper()
	byObject := source.CacheByObject()
	byObject[&corev1.Pod{}] = cache.ByObject{Transform: podcache.Transform}
	byObject[&corev1.Node{}] = cache.ByObject{Transform: podcache.TransformNode}
	slices, ofSources := endpoints.CacheByObject()
	byObject[slices] = ofSources
	mgr, err := ctrl.NewManager(login, ctrl.Options{
		Scheme:     Scheme(),
		Cache:      cache.Options{ByObject: byObject, DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // Tests of one suite run the same parts.
	})
	Must(t, err)
	Must(t, register(mgr))
	return Run(t, mgr.Start)
}

// WaitForCache waits until a cache has read everything that it watches.
func WaitForCache(t T, c cache.Cache) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !c.WaitForCacheSync(ctx) {
		Must(t, errors.New("a cache has not read everything in time"))
	}
}
