package start

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/manager"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/porttest"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

var cluster *env.Cluster

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) { cluster = env.Start(t, "c1")[0] })
}

// away answers no request while it is set.
type away struct {
	atomic.Bool

	asked atomic.Int64 // requests while it was set
	next  http.RoundTripper
}

func (a *away) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.Load() {
		a.asked.Add(1)
		return nil, errors.New("connection refused")
	}
	return a.next.RoundTrip(r)
}

func TestAManagerWaitsForItsAPIServer(t *testing.T) {
	env.Create(t, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
	server := &away{}
	server.Store(true)
	login := rest.CopyConfig(cluster.Config)
	login.Wrap(func(next http.RoundTripper) http.RoundTripper {
		server.next = next
		return server
	})
	health, config := porttest.Free(t), configuration(t)
	config.Health.BindAddress = fmt.Sprintf("127.0.0.1:%d", health)
	env.Run(t, func(ctx context.Context) error {
		pod := manager.Pod{Namespace: env.ReleaseNamespace, IP: "127.0.0.1"}
		return manager.Run(log.IntoContext(ctx, logr.Discard()), login, config, pod)
	})

	env.Eventually(t, func(context.Context) error {
		if asked := server.asked.Load(); asked < 3 {
			return fmt.Errorf("the manager has asked %d times", asked)
		}
		return nil
	})
	env.ExpectEqual(t, "alive", http.StatusOK, probe(t, health, "/healthz"))
	env.ExpectEqual(t, "not ready", http.StatusServiceUnavailable, probe(t, health, "/readyz"))

	server.Store(false)
	lease := &coordinationv1.Lease{ObjectMeta: env.Meta(env.ReleaseNamespace, env.ManagerAccount)}
	env.WaitFor(t, cluster, lease, func(l *coordinationv1.Lease) error {
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
			return errors.New("nobody leads")
		}
		return nil
	})
	env.ExpectEqual(t, "alive", http.StatusOK, probe(t, health, "/healthz"))
}

func TestAManagerThatWaitsCanBeStopped(t *testing.T) {
	server := &away{}
	server.Store(true)
	login := rest.CopyConfig(cluster.Config)
	login.Wrap(func(http.RoundTripper) http.RoundTripper { return server })
	config := configuration(t)
	stop := env.Run(t, func(ctx context.Context) error {
		pod := manager.Pod{Namespace: env.ReleaseNamespace, IP: "127.0.0.1"}
		return manager.Run(log.IntoContext(ctx, logr.Discard()), login, config, pod)
	})
	env.Eventually(t, func(context.Context) error {
		if server.asked.Load() == 0 {
			return errors.New("the manager has not asked")
		}
		return nil
	})
	stop() // An error fails the test.
}

func probe(t *testing.T, port int, path string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	env.Must(t, err)
	answer, err := http.DefaultClient.Do(request)
	env.Must(t, err)
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode
}

func configuration(t *testing.T) *configv1alpha1.Configuration {
	t.Helper()
	config, err := configv1alpha1.Load(fmt.Appendf(nil, `
apiVersion: config.multicluster.admiralty.io/v1alpha1
kind: Configuration
roles: {target: false}
leaderElection: {name: %s}
metrics: {bindAddress: "0"}
health: {bindAddress: "0"}
webhook:
  port: %d
  selfManaged: {secretName: certificate, serviceName: webhook, webhookConfigurationName: webhook}
kubeletAPI: {port: %d}
`, env.ManagerAccount, porttest.Free(t), porttest.Free(t)))
	env.Must(t, err)
	return config
}
