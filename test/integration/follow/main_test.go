package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const (
	release = "multicluster-scheduler"
	// user is who the source is in the target.
	user = "the-source"
)

// world is what the tests share: a source with one manager, and a target with the chart's roles and policy.
type world struct {
	scheme         *runtime.Scheme
	source, target *apiserver.Cluster
	identity       *rest.Config // the source's in the target
	mgr            manager.Manager
	clock          *clocktesting.FakeClock
	follower       *follow.Follower
	registry       *engage.Registry
	appeared       log
	requests       log // the source's in the target, of writes and of reads
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

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	shared.scheme = runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(shared.scheme), v1alpha1.AddToScheme(shared.scheme)); err != nil {
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
				err = errors.Join(err, cluster.Stop())
			}
		}
	}()
	if err := group.Wait(); err != nil {
		return 0, err
	}
	if err := install(ctx, shared.target.Client); err != nil {
		return 0, err
	}
	if shared.identity, err = shared.target.User(user); err != nil {
		return 0, err
	}
	shared.identity.Wrap(shared.requests.wrap)
	done, err := startManager(ctx)
	if err != nil {
		return 0, err
	}
	code = m.Run()
	cancel()
	return code, <-done
}

func startManager(ctx context.Context) (<-chan error, error) {
	mgr, err := ctrl.NewManager(shared.source.Config, ctrl.Options{
		Scheme:  shared.scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: podcache.Transform}}},
	})
	if err != nil {
		return nil, err
	}
	shared.mgr = mgr
	shared.clock = clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	if shared.follower, err = newFollower(ctx, shared.source.Config); err != nil {
		return nil, err
	}
	shared.registry = engage.NewRegistry(shared.follower)
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return nil, errors.New("the manager's cache does not sync")
	}
	return done, nil
}

func newFollower(ctx context.Context, config *rest.Config) (*follow.Follower, error) {
	f, err := follow.New(follow.Options{
		Config: config, Source: translate.Source{ClusterID: "source-id", ClusterName: "c1"},
		Appeared: func(namespace string, ref needs.Ref) { shared.appeared.add(namespace + "/" + ref.String()) },
		Clock:    shared.clock, Recorder: shared.mgr.GetEventRecorder("follow"), Logger: logr.Discard(),
	})
	if err == nil {
		f.Register(ctx, shared.mgr)
	}
	return f, err
}

// install makes what the chart says of sources.
func install(ctx context.Context, c client.Client) error {
	root := filepath.Join("..", "..", "..")
	helm := filepath.Join(root, ".local", "bin", "helm")
	if _, err := os.Stat(helm); err != nil {
		return fmt.Errorf("these tests render the chart and helm is missing: run `make test-integration`, which builds it: %w", err)
	}
	command := exec.CommandContext(ctx, helm, "template", release, filepath.Join(root, "charts", release),
		"--show-only", "templates/policy.yaml", "--show-only", "templates/rbac/sources.yaml", "--set", "rbac.selfTarget=false")
	command.Stderr = os.Stderr
	rendered, err := command.Output()
	if err != nil {
		return fmt.Errorf("rendering the chart: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("decoding the chart: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s %q: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// log keeps what happened, in order.
type log struct {
	mu      sync.Mutex // guards entries
	entries []string
}

func (l *log) add(entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry)
}

// of returns the entries that contain all of the texts.
func (l *log) of(texts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, entry := range l.entries {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(entry, text)
		}
		if all {
			found = append(found, entry)
		}
	}
	return found
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (l *log) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.add(r.Method + " " + r.URL.RequestURI())
		return next.RoundTrip(r)
	})
}
