package tokens

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/target"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/token"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	life       = 10 * time.Minute
	secretName = env.Release + "-tokens"
	// untilDue is longer than it takes until a token is renewed. The first one is younger than the fake clock.
	untilDue = life * 6 / 10
	speed    = 20
)

// fastClock has timers and tickers that go fast, but shows the right time.
type fastClock struct{ clock.RealClock }

func (c fastClock) NewTimer(d time.Duration) clock.Timer   { return c.RealClock.NewTimer(d / speed) }
func (c fastClock) NewTicker(d time.Duration) clock.Ticker { return c.RealClock.NewTicker(d / speed) }

var c1, c2 *env.Cluster

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		clusters := env.Start(t, "c1", "c2")
		c1, c2 = clusters[0], clusters[1]
		for _, each := range clusters {
			env.Create(t, each, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
		}
		c2.InstallSourceRoles(t)
		c2.Install(t, env.Render(t, env.Release, "--show-only", "templates/policy-tokens.yaml"), "")
		summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
		env.Create(t, c2, summary)
		env.ChangeStatus(t, c2, summary, func(s *v1alpha1.ClusterSummary) { s.Status.ClusterID = "id-of-c2" })
	})
}

// world is a source with the chart's Secret and role, and one target.
type world struct {
	t         *testing.T
	namespace string
	login     *rest.Config
	clock     *clocktesting.FakeClock
	registry  *engage.Registry
	key       types.NamespacedName
	account   types.NamespacedName
	stop      func()
}

// newWorld connects a source by a token of ten minutes. Unless renewable, the source has no right to renew it.
func newWorld(t *testing.T, renewable bool) *world {
	t.Helper()
	w := &world{
		t: t, namespace: env.Namespace(t, nil, c1), clock: clocktesting.NewFakeClock(clock.RealClock{}.Now()),
	}
	w.install()
	w.key = types.NamespacedName{Name: w.namespace}
	w.account = types.NamespacedName{Namespace: env.ReleaseNamespace, Name: "source-of-" + w.namespace}
	env.Create(t, c2, &corev1.ServiceAccount{ObjectMeta: env.Meta(w.account.Namespace, w.account.Name)})
	c2.BindSource(t, env.ServiceAccountUser(w.account.Namespace, w.account.Name))
	if renewable {
		w.allowRenewal()
	}
	env.CreateForTest(t, c1, &corev1.Secret{
		ObjectMeta: env.Meta(w.namespace, "c2"), Data: map[string][]byte{"config": w.kubeconfig(life)},
	})
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: w.key.Name}}
	object.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
		Namespace: w.namespace, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: "c2"},
	}
	env.CreateForTest(t, c1, object)
	w.start()
	w.waitConnected(v1alpha1.ReasonConnected)
	return w
}

// install installs the chart's Secret, and its role in the namespace of the Secret.
func (w *world) install() {
	w.t.Helper()
	for _, object := range env.Render(w.t, env.Release, "--namespace", w.namespace,
		"--show-only", "templates/tokens.yaml", "--show-only", "templates/rbac/release.yaml") {
		if object.GetNamespace() == w.namespace {
			env.Create(w.t, c1, object)
		}
	}
	w.login = c1.User(w.t, env.ServiceAccountUser(w.namespace, env.ManagerAccount))
}

// allowRenewal gives the right that connect gives.
func (w *world) allowRenewal() {
	w.t.Helper()
	role, binding := cluster.Connection{}.Renewal(w.account, &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace, UID: "1"},
	})
	env.Create(w.t, c2, role, binding)
	user := env.ServiceAccountUser(w.account.Namespace, w.account.Name)
	env.Eventually(w.t, func(ctx context.Context) error {
		return env.ClientFor(w.t, c2.Impersonate(user)).SubResource("token").Create(ctx,
			&corev1.ServiceAccount{ObjectMeta: env.Meta(w.account.Namespace, w.account.Name)},
			&authenticationv1.TokenRequest{})
	})
}

// kubeconfig returns a kubeconfig with a new token of the source.
func (w *world) kubeconfig(life time.Duration) []byte {
	w.t.Helper()
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(life.Seconds()))},
	}
	env.Must(w.t, c2.Client.SubResource("token").Create(w.t.Context(),
		&corev1.ServiceAccount{ObjectMeta: env.Meta(w.account.Namespace, w.account.Name)}, request))
	login := rest.AnonymousClientConfig(c2.Config)
	login.BearerToken = request.Status.Token
	return env.Kubeconfig(w.t, env.Context{Name: "c2", Login: login})
}

// start runs the leader of the source, whose clock is the fake one for tokens.
func (w *world) start() {
	w.t.Helper()
	w.registry = engage.NewRegistry()
	w.stop = env.RunManager(w.t, c1.Config, func(mgr ctrl.Manager) error {
		// The leader uses the tokens' Secret with the rights of the chart.
		secrets, err := kubernetes.NewForConfig(w.login)
		if err != nil {
			return err
		}
		renewer, err := token.New(token.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Secrets: secrets,
			Secret: types.NamespacedName{Namespace: w.namespace, Name: secretName},
			Clock:  w.clock, Jitter: func() float64 { return 0 }, Recorder: mgr.GetEventRecorder("tokens"),
			Logger: testr.New(w.t), Metrics: prometheus.NewRegistry(),
		})
		if err != nil {
			return err
		}
		inUse, err := addresses.Register(mgr)
		if err != nil {
			return err
		}
		targets, err := target.New(target.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: c1.Config, Scheme: mgr.GetScheme(),
			Registry: w.registry, Source: translate.Source{ClusterID: "id-of-c1"}, Tokens: renewer,
			Addresses: inUse,
			Verifier:  func() (gate.Verifier, error) { return env.Verifier{}, nil },
			Clock:     fastClock{}, Recorder: mgr.GetEventRecorder("targets"), Metrics: prometheus.NewRegistry(),
		})
		if err != nil {
			return err
		}
		return errors.Join(mgr.Add(renewer), targets.Register(mgr))
	})
}

// waitConnected waits until the condition Connected of the target has a reason.
func (w *world) waitConnected(reason string) {
	w.t.Helper()
	env.WaitFor(w.t, c1, w.target(), func(t *v1alpha1.ClusterTarget) error {
		c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionConnected)
		if c == nil || c.Reason != reason {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
}

func (w *world) target() *v1alpha1.ClusterTarget {
	return &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: w.key.Name}}
}

// waitCredentials waits until the status of the target is accepted.
func (w *world) waitCredentials(check func(*v1alpha1.TargetCredentials) error) *v1alpha1.TargetCredentials {
	w.t.Helper()
	return env.WaitFor(w.t, c1, w.target(), func(t *v1alpha1.ClusterTarget) error {
		if t.Status.Credentials == nil {
			return errors.New("there are no credentials")
		}
		return check(t.Status.Credentials)
	}).Status.Credentials
}

// renew steps the clock to the renewal of the token, and waits for it.
func (w *world) renew() {
	w.t.Helper()
	before := w.stored()
	w.clock.Step(untilDue)
	env.Eventually(w.t, func(context.Context) error {
		if w.stored() == before {
			return errors.New("there is no new token")
		}
		return nil
	})
	now := w.clock.Now().Truncate(time.Second)
	w.waitCredentials(func(c *v1alpha1.TargetCredentials) error {
		if c.Renewed == nil || !c.Renewed.Time.Equal(now) || c.Expires.Time.Before(now.Add(life-time.Second)) {
			return fmt.Errorf("credentials are %+v, want those renewed at %s", c, now)
		}
		return nil
	})
}

// stored returns the entries of the target in the manager's Secret.
func (w *world) stored() string {
	w.t.Helper()
	secret := env.Get(w.t, c1, &corev1.Secret{ObjectMeta: env.Meta(w.namespace, secretName)})
	all := ""
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		if strings.HasPrefix(key, translate.TargetID(w.key)+".") {
			all += string(secret.Data[key]) + "\n"
		}
	}
	return all
}

// connection returns the engaged target.
func (w *world) connection() *engage.Target {
	w.t.Helper()
	engaged, ok := w.registry.ByKey(w.key)
	if !ok {
		w.t.Fatalf("%s is not engaged", w.key)
	}
	return engaged
}

// sends returns the token that a connection sends.
func (w *world) sends(engaged *engage.Target) string {
	w.t.Helper()
	sent, err := sentBy(w.t, engaged)
	env.Must(w.t, err)
	return sent
}

// waitSends waits until the target is engaged and sends a token.
func (w *world) waitSends(token string) {
	w.t.Helper()
	env.Eventually(w.t, func(context.Context) error {
		engaged, ok := w.registry.ByKey(w.key)
		if !ok {
			return errors.New("it is not engaged")
		}
		if sent, err := sentBy(w.t, engaged); err != nil || sent != token {
			return fmt.Errorf("it sends %q (%w), want %q", sent, err, token)
		}
		return nil
	})
}

func sentBy(t *testing.T, engaged *engage.Target) (string, error) {
	t.Helper()
	review := &authenticationv1.SelfSubjectReview{}
	err := env.ClientFor(t, engaged.Config).Create(t.Context(), review)
	return strings.Join(review.Status.UserInfo.Extra["authentication.kubernetes.io/credential-id"], ""), err
}
