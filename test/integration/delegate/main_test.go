package delegate

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/capacity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// target is a target cluster with a running manager; the tests share it.
var target *apiserver.Cluster

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	log.SetLogger(logr.Discard())
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return 0, err
		}
	}
	var err error
	if target, err = apiserver.New("target", apiserver.Options{Scheme: s}); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped, err := startManager(ctx, s)
	if err != nil {
		cancel()
		return 0, err
	}
	code := m.Run()
	cancel()
	if err := <-stopped; err != nil {
		return 0, fmt.Errorf("running the manager: %w", err)
	}
	return code, target.Stop()
}

func startManager(ctx context.Context, s *runtime.Scheme) (<-chan error, error) {
	mgr, err := manager.New(target.Config, manager.Options{
		Scheme:  s,
		Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:  {Transform: podcache.Transform},
			&corev1.Node{}: {Transform: podcache.TransformNode},
		}},
	})
	if err != nil {
		return nil, err
	}
	chaperons := chaperon.New(mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}, mgr.GetEventRecorder("chaperon"))
	if err := chaperons.Register(mgr); err != nil {
		return nil, err
	}
	version, err := discovery.NewDiscoveryClientForConfig(target.Config)
	if err != nil {
		return nil, err
	}
	publisher := capacity.New(capacity.Options{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Version: version, Clock: clock.RealClock{}, ClusterID: "target",
		ExcludedLabels: regexp.MustCompile("^example.org/secret="),
	})
	if err := publisher.Register(mgr); err != nil {
		return nil, err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	return stopped, nil
}
