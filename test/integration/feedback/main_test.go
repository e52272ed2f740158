package feedback

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// world is what the tests share: a source with one manager and a target cluster.
type world struct {
	scheme         *runtime.Scheme
	source, target *apiserver.Cluster
	registry       *engage.Registry
	writes         *writes
	clock          *clocktesting.FakePassiveClock // the manager's
}

var shared world

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	shared.scheme = runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(shared.scheme); err != nil {
		return 0, err
	}
	if err := v1alpha1.AddToScheme(shared.scheme); err != nil {
		return 0, err
	}
	var group errgroup.Group
	for name, cluster := range map[string]**apiserver.Cluster{"source": &shared.source, "target": &shared.target} {
		group.Go(func() (err error) {
			*cluster, err = apiserver.New(name, apiserver.Options{Scheme: shared.scheme})
			return err
		})
	}
	defer func() {
		for _, cluster := range []*apiserver.Cluster{shared.source, shared.target} {
			if cluster != nil {
				_ = cluster.Stop()
			}
		}
	}()
	if err := group.Wait(); err != nil {
		return 0, err
	}
	done, err := startManager(ctx)
	if err != nil {
		return 0, err
	}
	code := m.Run()
	cancel()
	return code, <-done
}

func startManager(ctx context.Context) (<-chan error, error) {
	ctrl.SetLogger(logr.Discard())
	shared.writes = &writes{count: map[string]int{}}
	config := rest.CopyConfig(shared.source.Config)
	config.Wrap(shared.writes.wrap)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  shared.scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:  {Transform: podcache.Transform},
			&corev1.Node{}: {Transform: podcache.TransformNode},
		}},
	})
	if err != nil {
		return nil, err
	}
	shared.clock = clocktesting.NewFakePassiveClock(time.Now())
	f := feedback.New(feedback.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: shared.clock,
		Recorder: mgr.GetEventRecorder("feedback"), Logger: mgr.GetLogger(),
	})
	shared.registry = engage.NewRegistry(f)
	if err := f.Register(ctx, mgr); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("the manager's cache does not sync")
	}
	return done, nil
}

// writes counts the manager's writes to pods, by method and path.
type writes struct {
	mu    sync.Mutex // guards count
	count map[string]int
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/pods/") {
			w.mu.Lock()
			w.count[r.Method+" "+r.URL.Path]++
			w.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// of returns how many writes there were to a pod, of its status and others.
func (w *writes) of(pod *corev1.Pod) (status, others int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	path := "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name
	for request, n := range w.count {
		switch {
		case strings.HasSuffix(request, " "+path+"/status"):
			status += n
		case strings.HasSuffix(request, " "+path):
			others += n
		}
	}
	return status, others
}
