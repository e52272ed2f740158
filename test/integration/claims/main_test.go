package claims

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/claims"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const clusterID = "source-id"

// world is what the tests share: a source with one manager, and two targets.
type world struct {
	source, c2, c3 *apiserver.Cluster
	users          map[*apiserver.Cluster]*rest.Config
	ids            map[string]string // of clusters, by their hosts
	claims         *claims.Claims
	registry       *engage.Registry
	appeared       *counter
	hook           hook // of the manager in the source
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
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	var group errgroup.Group
	for name, cluster := range map[string]**apiserver.Cluster{"source": &shared.source, "c2": &shared.c2, "c3": &shared.c3} {
		group.Go(func() (err error) {
			*cluster, err = apiserver.New(name, apiserver.Options{})
			return err
		})
	}
	defer func() {
		for _, cluster := range []*apiserver.Cluster{shared.source, shared.c2, shared.c3} {
			if cluster != nil {
				_ = cluster.Stop()
			}
		}
	}()
	if err := group.Wait(); err != nil {
		return 0, err
	}
	if err := errors.Join(addUsers(ctx), addClasses(ctx)); err != nil {
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

func addClasses(ctx context.Context) error {
	byDefault := map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	for cluster, names := range map[*apiserver.Cluster][]string{
		shared.source: {"gp3", "fast", "fixed-there", "only-here"}, shared.c2: {"standard", "fast", "fixed-there"}, shared.c3: {"standard", "fast", "fixed-there"},
	} {
		for i, name := range names {
			expands := name != "fixed-there" || cluster == shared.source
			sc := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disks", AllowVolumeExpansion: &expands}
			if i == 0 {
				sc.Annotations = byDefault
			}
			if err := cluster.Client.Create(ctx, sc); err != nil {
				return err
			}
		}
	}
	return nil
}

func startManager(ctx context.Context) (<-chan error, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	shared.appeared = &counter{counts: map[string]int{}}
	config := rest.CopyConfig(shared.users[shared.source])
	config.Wrap(shared.hook.wrap)
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return nil, err
	}
	shared.claims, err = claims.New(claims.Options{
		Config: config, Scheme: scheme, Mapper: mgr.GetRESTMapper(), Source: translate.Source{ClusterID: clusterID, ClusterName: "c1"},
		Appeared: shared.appeared.count, Clock: clock.RealClock{}, Recorder: mgr.GetEventRecorder("claims"), Logger: mgr.GetLogger(),
	})
	if err != nil {
		return nil, err
	}
	shared.registry = engage.NewRegistry(shared.claims)
	if err := shared.claims.Register(ctx, mgr); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return done, nil
}

// counter counts by namespace.
type counter struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

func (c *counter) count(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[namespace]++
}

func (c *counter) of(namespace string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[namespace]
}

// hook sees the requests of a client before they are sent, and may answer in the server's place. The zero value lets all pass.
type hook struct {
	see atomic.Pointer[func(*http.Request) *http.Response]
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (h *hook) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if see := h.see.Load(); see != nil {
			if answer := (*see)(r); answer != nil {
				return answer, nil
			}
		}
		return next.RoundTrip(r)
	})
}

// on has requests of a method for a claim seen until the test ends.
func (h *hook) on(s *story, method, name string, see func(*http.Request) *http.Response) {
	path := "/api/v1/namespaces/" + s.namespace + "/persistentvolumeclaims/" + name
	f := func(r *http.Request) *http.Response {
		if r.Method != method || r.URL.Path != path {
			return nil
		}
		return see(r)
	}
	h.see.Store(&f)
	s.Cleanup(h.off)
}

func (h *hook) off() { h.see.Store(nil) }

// notFound is what something answers that is no API server.
func notFound(r *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/plain"}}, Body: http.NoBody, Request: r}
}

// forbidden is what an API server answers whose rules have changed.
func forbidden(r *http.Request) *http.Response {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"claims are forbidden","reason":"Forbidden","code":403}`
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}
