package rights

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/manager"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/porttest"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestMetricsNeedAuthentication(t *testing.T) {
	config := configuration(t, "roles: {source: false}")
	config.Metrics.Secure = true
	m := start(t, config, "--set", "roles.source=false")
	env.Eventually(t, func(ctx context.Context) error {
		key := client.ObjectKey{Name: v1alpha1.ClusterSummaryName}
		return cluster.Client.Get(ctx, key, &v1alpha1.ClusterSummary{})
	})
	reader := cluster.Token(t, &corev1.ServiceAccount{ObjectMeta: env.Meta(env.ReleaseNamespace, "prometheus")})
	cluster.BindRole(t, env.ServiceAccountUser(env.ReleaseNamespace, "prometheus"), "", env.Release+"-metrics-reader")
	stranger := cluster.Token(t, &corev1.ServiceAccount{ObjectMeta: env.Meta(env.ReleaseNamespace, "stranger")})
	url := "https://" + config.Metrics.BindAddress + "/metrics"
	env.Eventually(t, func(ctx context.Context) error {
		code, body, err := get(ctx, url, reader.BearerToken)
		if code != http.StatusOK || !strings.Contains(body, "leader_election") {
			return fmt.Errorf("a reader with the ClusterRole gets %d (%w)", code, err)
		}
		return nil
	})
	for name, test := range map[string]struct {
		token string
		want  int
	}{
		"nobody is refused":                     {"", http.StatusUnauthorized},
		"an unknown token is refused":           {"guess", http.StatusInternalServerError}, // of controller-runtime
		"an account without rights is refused":  {stranger.BearerToken, http.StatusForbidden},
		"an account with the right is answered": {reader.BearerToken, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			if code, _, err := get(t.Context(), url, test.token); code != test.want {
				t.Errorf("answer %d (%v), want %d", code, err, test.want)
			}
		})
	}
	plain := strings.Replace(url, "https", "http", 1)
	if code, _, _ := get(t.Context(), plain, reader.BearerToken); code == http.StatusOK {
		t.Error("metrics are answered in the clear")
	}
	m.checkRights(t)
}

func TestASourceRunsWithItsRights(t *testing.T) {
	config := configuration(t, "roles: {target: false}")
	m := start(t, config, "--set", "roles.target=false")
	m.checkRights(t)
}

// running is a manager that runs with the rights of the chart.
type running struct {
	mu       sync.Mutex // guards refusals
	refusals []string
}

// start runs a manager with the rights that the chart gives it with these arguments, and returns when it is ready.
func start(t *testing.T, config *configv1alpha1.Configuration, arguments ...string) *running {
	t.Helper()
	for _, name := range []string{env.ReleaseNamespace, env.LeasesNamespace} {
		env.Ensure(t, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	account := &corev1.ServiceAccount{ObjectMeta: env.Meta(env.ReleaseNamespace, env.ManagerAccount)}
	login := cluster.Token(t, account)
	deleteAtEnd(t, account)
	var objects []*unstructured.Unstructured
	for _, object := range env.Render(t, env.Release, arguments...) {
		switch object.GetKind() {
		case "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Secret", "MutatingWebhookConfiguration",
			"ValidatingWebhookConfiguration":
			objects = append(objects, object)
			deleteAtEnd(t, object)
		}
	}
	// The chart binds its aggregated ClusterRole, which nobody aggregates here.
	user := env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)
	cluster.Install(t, objects, user)
	waitGranted(t, user, given(t, arguments...))
	m := &running{}
	login.Wrap(func(next http.RoundTripper) http.RoundTripper { return &watcher{m, next} })
	env.Run(t, func(ctx context.Context) error {
		pod := manager.Pod{Namespace: env.ReleaseNamespace, IP: "127.0.0.1"}
		return manager.Run(log.IntoContext(ctx, logr.Discard()), login, config, pod)
	})
	for _, path := range []string{"/readyz", "/healthz"} {
		env.Eventually(t, func(ctx context.Context) error {
			if code, body, err := get(ctx, "http://"+config.Health.BindAddress+path, ""); code != http.StatusOK {
				return fmt.Errorf("%s answers %d %q (%w)", path, code, body, err)
			}
			return nil
		})
	}
	return m
}

// deleteAtEnd deletes an object of the release, for the next test that installs the release.
func deleteAtEnd(t *testing.T, object client.Object) {
	t.Helper()
	t.Cleanup(func() {
		if err := cluster.Client.Delete(context.WithoutCancel(t.Context()), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// watcher sees the answers that refuse a request for want of a right.
type watcher struct {
	manager *running
	next    http.RoundTripper
}

func (w *watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusForbidden {
		w.manager.mu.Lock()
		defer w.manager.mu.Unlock()
		w.manager.refusals = append(w.manager.refusals, r.Method+" "+r.URL.Path)
	}
	return response, err
}

// checkRights fails the test if the manager lacked a right until now.
func (m *running) checkRights(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.refusals) > 0 {
		t.Errorf("the API server refused requests of the manager: %q", m.refusals)
	}
}

// waitGranted waits until the API server knows all rights of a user.
func waitGranted(t *testing.T, user string, all rights) {
	t.Helper()
	for one := range all {
		path, name, _ := strings.Cut(one.resource, " named ")
		resource, group, _ := strings.Cut(path, ".")
		attributes := &authorizationv1.ResourceAttributes{Group: group, Name: name, Verb: one.verb}
		attributes.Resource, attributes.Subresource, _ = strings.Cut(resource, "/")
		switch one.where {
		case everywhere:
		case release:
			attributes.Namespace = env.ReleaseNamespace
		case leases:
			attributes.Namespace = env.LeasesNamespace
		default:
			attributes.Namespace = one.where
		}
		env.Eventually(t, func(ctx context.Context) error {
			review := &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attributes},
			}
			if err := cluster.Client.Create(ctx, review); err != nil || review.Status.Allowed {
				return err
			}
			return fmt.Errorf("the API server does not know yet that the manager may %s %s", one.verb, one.resource)
		})
	}
}

// configuration returns a configuration whose ports are free, with more lines.
func configuration(t *testing.T, lines string) *configv1alpha1.Configuration {
	t.Helper()
	config, err := configv1alpha1.Load(fmt.Appendf(nil, `
apiVersion: config.multicluster.admiralty.io/v1alpha1
kind: Configuration
leaderElection: {namespace: %s, name: %s}
metrics: {bindAddress: "127.0.0.1:%d"}
health: {bindAddress: "127.0.0.1:%d"}
webhook:
  port: %d
  selfManaged: {secretName: %[6]s-certificate, serviceName: %[6]s, webhookConfigurationName: %[7]s}
kubeletAPI: {port: %[8]d}
%[9]s
`, env.ReleaseNamespace, env.ManagerAccount, porttest.Free(t), porttest.Free(t), porttest.Free(t),
		env.Release+"-webhook", env.Release, porttest.Free(t), lines))
	env.Must(t, err)
	return config
}

// get returns the answer to a request with a token, or without one if it is empty. It trusts any certificate.
func get(ctx context.Context, url, token string) (code int, body string, err error) {
	config := &rest.Config{BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, "", err
	}
	defer httpClient.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}
