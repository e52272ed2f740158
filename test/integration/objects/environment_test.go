package objects

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/objects"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	sourceID = "source-id"
	// sourceUser is who the source is in the target.
	sourceUser = "the-source"
	// reasonNotFollowed is that of events about originals whose copies are not written.
	reasonNotFollowed = objects.ReasonNotFollowed
)

// The tests share a source with one manager, and a target with the chart's roles and policy.
var (
	source, target *env.Cluster
	identity       *rest.Config // the source's in the target
	manager        ctrl.Manager
	clock          *clocktesting.FakeClock
	follower       *objects.Follower
	registry       *engage.Registry
	appeared       env.Journal // objects that were missing: "<namespace>/<resource>/<name>"
	requests       env.Journal // the source's in the target: method and URI
)

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "source", "target")
	source, target = clusters[0], clusters[1]
	target.Install(t, env.Render(t, env.Release, "--show-only", "templates/policy.yaml",
		"--show-only", "templates/rbac/sources.yaml", "--set", "rbac.selfTarget=false"), "")
	identity = env.Intercept(target.User(t, sourceUser), func(r *http.Request) *http.Response {
		requests.Add(r.Method + " " + r.URL.RequestURI())
		return nil
	})
	clock = clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	env.RunManager(t, source.Config, func(mgr ctrl.Manager) error {
		manager = mgr
		follower = newFollower(t, source.Config)
		registry = engage.NewRegistry(follower)
		return nil
	})
	env.WaitForCache(t, manager.GetCache())
}

// newFollower returns a follower with the rights of a login in the source.
func newFollower(t env.T, login *rest.Config) *objects.Follower {
	t.Helper()
	f, err := objects.New(objects.Options{
		Config: login, Source: translate.Source{ClusterID: sourceID, ClusterName: "c1"},
		Appeared: func(namespace string, ref needs.Ref) { appeared.Add(namespace + "/" + ref.String()) },
		Clock:    clock, Recorder: manager.GetEventRecorder("follow"), Logger: logr.Discard(),
	})
	env.Must(t, err)
	f.Register(t.Context(), manager)
	return f
}

// newWriter returns a writer of the source's copies, with the rights of a login in the target.
func newWriter(t *testing.T, login *rest.Config) *writer.Writer {
	t.Helper()
	c := env.ClientFor(t, login)
	return writer.NewWriter(c, c, translate.Source{ClusterID: sourceID, ClusterName: "c1"})
}

// engaged engages the target c2 of a new namespace, in which the source has its rights, until the test ends.
func engaged(t *testing.T) (namespace string, c2 *env.Target) {
	t.Helper()
	namespace = env.Namespace(t, env.Enabled(), source, target)
	bindSource(t, namespace, sourceUser)
	c2 = env.NewTarget(target, types.NamespacedName{Namespace: namespace, Name: "c2"})
	c2.Login = identity
	c2.Engage(t, registry)
	return namespace, c2
}

// bindSource gives a user a source's rights in the target, and waits until the policy applies to it.
func bindSource(t *testing.T, namespace, user string) {
	t.Helper()
	target.BindRole(t, user, namespace, env.SourceRole)
	c := env.ClientFor(t, target.Impersonate(user))
	env.Eventually(t, func(ctx context.Context) error {
		err := c.Create(ctx, configMap(namespace, "probe", "b"), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "must have the annotation") {
			return fmt.Errorf("the policy does not apply: %w", err)
		}
		return nil
	})
}

// configMap returns a ConfigMap whose key a has a value.
func configMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: env.Meta(namespace, name), Data: map[string]string{"a": value}}
}

// secret returns a Secret whose key password has a value.
func secret(namespace, name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: env.Meta(namespace, name), Data: map[string][]byte{"password": []byte(value)}}
}

// createSecret creates a Secret in the source.
func createSecret(t *testing.T, namespace, name, value string) *corev1.Secret {
	t.Helper()
	s := secret(namespace, name, value)
	env.Create(t, source, s)
	return s
}

// setPassword changes a Secret in the source.
func setPassword(t *testing.T, s *corev1.Secret, value string) {
	t.Helper()
	env.Change(t, source, s, func(s *corev1.Secret) { s.Data["password"] = []byte(value) })
}

func needsSecret(name string, optional bool) func(*corev1.Pod) {
	return needsEnv(corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional,
	}})
}

func needsConfigMap(name string) func(*corev1.Pod) {
	return needsEnv(corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name},
	}})
}

func needsEnv(from corev1.EnvFromSource) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].EnvFrom = append(pod.Spec.Containers[0].EnvFrom, from)
	}
}

func needsAccount(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.ServiceAccountName = name }
}

// ensure ensures everything that a pod needs in a target, as scheduling does before it creates a PodChaperon.
func ensure(ctx context.Context, pod *corev1.Pod, in *env.Target) error {
	return ensureBy(ctx, follower, pod, in)
}

// ensureBy is ensure with any follower.
func ensureBy(ctx context.Context, f *objects.Follower, pod *corev1.Pod, in *env.Target) error {
	return f.Ensure(ctx, pod, in.Target)
}

func mustEnsure(t *testing.T, pod *corev1.Pod, in *env.Target) {
	t.Helper()
	env.Must(t, ensure(t.Context(), pod, in))
}

// missing returns an error that names the objects that a pod needs and the source lacks, as far as is known.
func missing(pod *corev1.Pod) error { return follower.Missing(pod) }

// keep keeps Secrets in a target for an Ingress.
func keep(ctx context.Context, in *env.Target, ingress string, refs []needs.Ref) error {
	return follower.Keep(ctx, in.Target, in.Key.Namespace, ingress, refs)
}

// place creates a proxy, ensures everything that it needs in a target, and binds it to the target's node.
func place(t *testing.T, pod *corev1.Pod, in *env.Target) {
	t.Helper()
	env.Create(t, source, pod)
	mustEnsure(t, pod, in)
	env.Bind(t, source, pod, in.NodeName)
}

// waitForBound waits until the follower has seen all pods that are bound: an object that another pod needs, which was
// bound later, comes to the target.
func waitForBound(t *testing.T, in *env.Target) {
	t.Helper()
	marker := env.Proxy(in.Key.Namespace, "bound", needsSecret("bound", true))
	env.Create(t, source, marker)
	env.Bind(t, source, marker, in.NodeName)
	createSecret(t, in.Key.Namespace, "bound", "seen")
	waitForPassword(t, in.Key.Namespace, "bound", "seen")
}

// waitForSecrets waits until the follower has seen all that happened to Secrets: another, created later, is not
// missing any more.
func waitForSecrets(t *testing.T, in *env.Target) {
	t.Helper()
	marker := env.Proxy(in.Key.Namespace, "seen", needsSecret("seen", false))
	if err := ensure(t.Context(), marker, in); !errors.As(err, new(*needs.MissingError)) {
		t.Fatalf("the marker: %v", err)
	}
	createSecret(t, in.Key.Namespace, "seen", "")
	env.Eventually(t, func(context.Context) error { return missing(marker) })
}

// password returns the password of a Secret in the target.
func password(t *testing.T, namespace, name string) string {
	t.Helper()
	return string(env.Get(t, target, secret(namespace, name, "")).Data["password"])
}

// waitForPassword waits until a Secret in the target has this password.
func waitForPassword(t *testing.T, namespace, name, want string) {
	t.Helper()
	env.WaitFor(t, target, secret(namespace, name, ""), func(found *corev1.Secret) error {
		if got := string(found.Data["password"]); got != want {
			return fmt.Errorf("the password is %q, want %q", got, want)
		}
		return nil
	})
}

// expectMissing checks that an error says that something is missing in the source.
func expectMissing(t *testing.T, err error) {
	t.Helper()
	if !errors.As(err, new(*needs.MissingError)) {
		t.Errorf("got %v, want that something is missing", err)
	}
}

// expectRefused checks that an error says that the target does not take a pod, and why.
func expectRefused(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.As(err, new(*needs.RefusedError)) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want a refusal with %q", err, text)
	}
}

// expectNotOurs checks that an error says that an object is no copy of this source.
func expectNotOurs(t *testing.T, err error) {
	t.Helper()
	if !errors.As(err, new(*writer.NotOursError)) {
		t.Errorf("got %v, want that the object is not ours", err)
	}
}

// expectUnguarded checks that an error says that nothing guards the objects of others.
func expectUnguarded(t *testing.T, err error) {
	t.Helper()
	if !errors.As(err, new(*writer.UnguardedError)) {
		t.Errorf("got %v, want that nothing guards it", err)
	}
}
