package proof

import (
	"testing"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// name is that of the Secret in the chart.
const name = env.Release + "-proof"

var cluster *env.Cluster

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) { cluster = env.Start(t, "c1")[0] })
}

// install creates the Secret and the role of the chart in a namespace for the test, and returns a login with the role.
func install(t *testing.T) (login *rest.Config, namespace string) {
	t.Helper()
	namespace = env.Namespace(t, nil, cluster)
	objects := render(t, namespace)
	cluster.Install(t, objects, "")
	return cluster.User(t, env.ServiceAccountUser(namespace, env.ManagerAccount)), namespace
}

// render returns the Secret and the role of the chart, with its binding.
func render(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, object := range env.Render(t, env.Release, "--namespace", namespace,
		"--show-only", "templates/proof.yaml", "--show-only", "templates/rbac/release.yaml") {
		if object.GetNamespace() == namespace {
			objects = append(objects, object)
		}
	}
	return objects
}

func secret(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: env.Meta(namespace, name)}
}

// newKeeper returns the keeper of a leader, which does not run.
func newKeeper(t *testing.T, login *rest.Config, namespace string) (*proof.Keeper, *clocktesting.FakeClock) {
	t.Helper()
	client, err := kubernetes.NewForConfig(login)
	env.Must(t, err)
	fake := clocktesting.NewFakeClock(clock.RealClock{}.Now())
	return proof.New(proof.Options{
		Client: client,
		Secret: types.NamespacedName{Namespace: namespace, Name: name},
		Clock:  fake,
		Logger: testr.New(t),
	}), fake
}

// run runs the keeper of a leader until the test ends.
func run(t *testing.T, login *rest.Config, namespace string) *proof.Keeper {
	t.Helper()
	keeper, _ := newKeeper(t, login, namespace)
	env.Run(t, keeper.Start)
	return keeper
}
