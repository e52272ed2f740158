package connect

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/target"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/node"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const (
	clusterID = "id-of-c1"
	address   = "10.1.2.3"
	port      = 10250
	speed     = 20
)

var (
	c1, c2 *apiserver.Cluster
	// c2Alice and c2Bob have the rights of a source in c2, c2Nobody has none.
	c2Alice, c2Bob, c2Nobody *rest.Config
	// running is what runs in c1, and registry its own.
	running  *instance
	registry *engage.Registry
)

// instance is a manager that runs.
type instance struct {
	stop context.CancelFunc
	done chan error
}

// end stops the manager and waits until it has stopped.
func (i *instance) end() error {
	i.stop()
	return <-i.done
}

// fastClock has timers and tickers that go fast, but tells the right time.
type fastClock struct{ clock.RealClock }

func (c fastClock) NewTimer(d time.Duration) clock.Timer   { return c.RealClock.NewTimer(d / speed) }
func (c fastClock) NewTicker(d time.Duration) clock.Ticker { return c.RealClock.NewTicker(d / speed) }

func TestMain(m *testing.M) {
	log.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(os.Stderr)))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	err := setUp(context.Background())
	for _, cluster := range []*apiserver.Cluster{c1, c2} {
		if cluster != nil {
			defer func() { _ = cluster.Stop() }()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := running.end(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func setUp(ctx context.Context) error {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(s); err != nil {
		return err
	}
	var err error
	if c1, err = apiserver.New("c1", apiserver.Options{Scheme: s}); err != nil {
		return err
	}
	if c2, err = apiserver.New("c2", apiserver.Options{Scheme: s}); err != nil {
		return err
	}
	if err := setUpTarget(ctx); err != nil {
		return err
	}
	return start(ctx)
}

// start starts a manager in c1.
func start(ctx context.Context) error {
	registry = engage.NewRegistry()
	mgr, err := newManager(c1.Client.Scheme())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	running = &instance{stop: stop, done: make(chan error, 1)}
	go func() { running.done <- mgr.Start(ctx) }()
	return nil
}

func setUpTarget(ctx context.Context) error {
	for name, config := range map[string]**rest.Config{"alice": &c2Alice, "bob": &c2Bob, "nobody": &c2Nobody} {
		var err error
		if *config, err = c2.User(name); err != nil {
			return err
		}
	}
	objects := []client.Object{
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "source"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"podchaperons"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
				{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"clustersummaries"}, ResourceNames: []string{"singleton"}, Verbs: []string{"get", "list", "watch"}},
				{APIGroups: []string{"", "discovery.k8s.io", "networking.k8s.io"}, Resources: []string{"services", "endpointslices", "ingresses"}, Verbs: []string{"list", "delete"}},
			},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "source"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "source"},
			Subjects: []rbacv1.Subject{
				{APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"},
				{APIGroup: rbacv1.GroupName, Kind: "User", Name: "bob"},
			},
		},
		summary(),
	}
	for _, object := range objects {
		if err := c2.Client.Create(ctx, object); err != nil {
			return err
		}
	}
	return publish(ctx, summary())
}

func newManager(s *runtime.Scheme) (manager.Manager, error) {
	mgr, err := ctrl.NewManager(c1.Config, manager.Options{
		Scheme:     s,
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return nil, err
	}
	source := translate.Source{ClusterID: clusterID, ClusterName: "c1"}
	targets, err := target.New(target.Options{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Config:    c1.Config,
		Scheme:    s,
		Registry:  registry,
		Source:    source,
		Clock:     fastClock{},
		Recorder:  mgr.GetEventRecorder("multicluster-scheduler"),
		Metrics:   prometheus.NewRegistry(),
	})
	if err != nil {
		return nil, err
	}
	nodes, err := node.New(node.Options{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Config:    c1.Config,
		Registry:  registry,
		Source:    source,
		Clock:     clock.RealClock{},
		Address:   address,
		Port:      port,
	})
	if err != nil {
		return nil, err
	}
	registry.Observe(nodes)
	if err := targets.Register(mgr); err != nil {
		return nil, err
	}
	return mgr, nodes.Register(mgr)
}
