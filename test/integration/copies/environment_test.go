package copies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	collection "github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/garbagecollection"
	writing "github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// grace is how long copies stay without a need: long enough to touch a copy in time on a busy machine.
const grace = 8 * time.Second

// target is a target cluster with the chart's roles and policy; the tests share it.
var target *env.Cluster

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		target = env.Start(t, "target")[0]
		env.Create(t, target, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
		chart := env.Render(t, env.Release, "--show-only", "templates/policy.yaml",
			"--show-only", "templates/rbac/*.yaml", "--set", "rbac.selfTarget=false")
		target.Install(t, chart, managerUser)
	})
}

// startManager runs the garbage collection of the target's manager, with the rights of a user, until the test ends.
func startManager(t *testing.T, user string, secretNamespaces ...string) {
	t.Helper()
	env.RunManager(t, target.Impersonate(user), func(mgr ctrl.Manager) error {
		collector, err := collection.New(collection.Options{
			Config: mgr.GetConfig(), Cache: mgr.GetCache(), Clock: clock.RealClock{}, Grace: grace,
			SecretNamespaces: secretNamespaces,
		})
		if err != nil {
			return err
		}
		return collector.Register(mgr)
	})
}

// newWriter returns the part of the source c1 that writes copies, with the rights of a login.
func newWriter(t *testing.T, login *rest.Config) *writing.Writer {
	t.Helper()
	c := env.ClientFor(t, login)
	return writing.NewWriter(c, c, translate.Source{ClusterID: "c1"})
}

// isNotOurs reports whether an error means that an object is no copy of this source.
func isNotOurs(err error) bool { return errors.As(err, new(*writing.NotOursError)) }

// managerUser is the user name of the target's manager.
var managerUser = env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)

// identity is someone who makes requests.
type identity struct {
	user   string
	config *rest.Config
	http   *http.Client
}

func newIdentity(t *testing.T, user string, config *rest.Config) identity {
	t.Helper()
	c, err := rest.HTTPClientFor(config)
	env.Must(t, err)
	return identity{user: user, config: config, http: c}
}

// newSource creates a service account, binds it to the role of sources in a namespace and returns it with its token.
func newSource(t *testing.T, name, namespace string) identity {
	t.Helper()
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.ReleaseNamespace, GenerateName: name + "-"},
	}
	login := target.Token(t, account)
	source := newIdentity(t, env.ServiceAccountUser(account.Namespace, account.Name), login)
	target.BindRole(t, source.user, namespace, env.SourceRole)
	// API servers learn of bindings and policies from a watch.
	probe := create(kinds+"configmaps?dryRun=All", "probe", `"labels":{}`, `"data":{}`)
	env.Eventually(t, func(ctx context.Context) error {
		if _, answer := source.do(ctx, t, probe, namespace); !strings.Contains(answer, "must have the annotation") {
			return fmt.Errorf("a source may create anything: %s", answer)
		}
		return nil
	})
	return source
}

// impersonated returns a user of the cluster, with the rights that this user has.
func impersonated(t *testing.T, user string, groups ...string) identity {
	t.Helper()
	return newIdentity(t, user, target.Impersonate(user, groups...))
}

func administrator(t *testing.T) identity {
	t.Helper()
	return impersonated(t, "admin", "system:masters")
}

func serviceAccount(t *testing.T, namespace, name string) identity {
	t.Helper()
	return impersonated(t, env.ServiceAccountUser(namespace, name),
		"system:serviceaccounts", "system:serviceaccounts:"+namespace, "system:authenticated")
}

// do makes the request and returns the answer of the API server.
func (i identity) do(ctx context.Context, t *testing.T, r request, namespace string) (code int, answer string) {
	t.Helper()
	fill := strings.NewReplacer("NS", namespace, "USER", i.user)
	address := strings.TrimSuffix(i.config.Host, "/") + fill.Replace(r.path)
	req, err := http.NewRequestWithContext(ctx, r.verb, address, strings.NewReader(fill.Replace(r.body)))
	env.Must(t, err)
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
		if query := req.URL.Query(); !query.Has("fieldManager") {
			query.Set("fieldManager", v1alpha1.FieldOwner) // as sources write
			req.URL.RawQuery = query.Encode()
		}
	}
	response, err := i.http.Do(req)
	env.Must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	env.Must(t, err)
	return response.StatusCode, string(body)
}

// expect makes the request and checks the code of the answer.
func (i identity) expect(t *testing.T, want int, r request, namespace string) {
	t.Helper()
	if code, answer := i.do(t.Context(), t, r, namespace); code != want {
		t.Errorf("%s %s: answer %d, want %d: %s", r.verb, r.path, code, want, answer)
	}
}

// expectForbidden makes the requests and checks that all of them are forbidden.
func (i identity) expectForbidden(t *testing.T, namespace string, requests ...request) {
	t.Helper()
	for _, r := range requests {
		i.expect(t, http.StatusForbidden, r, namespace)
	}
}
