package uninstall

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/manager/uninstall"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

var cluster *env.Cluster

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		cluster = env.Start(t, "c1")[0]
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}}
		env.Ensure(t, cluster, namespace)
	})
}

// release is an installed release whose manager is ready, as far as the Job sees it.
type release struct {
	login   *rest.Config
	options uninstall.Options
	manager *appsv1.Deployment
}

// install installs the parts of the chart that the Job needs, or removes.
func install(t *testing.T, replicas int32, arguments ...string) *release {
	t.Helper()
	r := &release{options: uninstall.Options{
		Deployment: types.NamespacedName{Namespace: env.ReleaseNamespace, Name: env.ManagerAccount},
		Webhook:    env.Release,
		Pods:       uninstall.End,
		Timeout:    2 * time.Minute,
		Notice:     time.Second,
	}}
	var objects []*unstructured.Unstructured
	for _, object := range env.Render(t, env.Release, arguments...) {
		hook := object.GetAnnotations()["helm.sh/hook"] == "pre-delete"
		switch kind := object.GetKind(); {
		case hook && kind == "ServiceAccount":
			owner := &corev1.ServiceAccount{ObjectMeta: env.Meta(object.GetNamespace(), object.GetName())}
			r.login = cluster.Token(t, owner)
			deleteAtEnd(t, owner)
		case hook && kind != "Job", kind == "MutatingWebhookConfiguration":
			objects = append(objects, object)
			deleteAtEnd(t, object)
		case kind == "ConfigMap":
			data, _, err := unstructured.NestedString(object.Object, "data", "config.yaml")
			env.Must(t, err)
			r.options.Configuration, err = configv1alpha1.Load([]byte(data))
			env.Must(t, err)
		case kind == "Deployment":
			r.manager = &appsv1.Deployment{}
			r.manager.Namespace, r.manager.Name = object.GetNamespace(), object.GetName()
			env.Create(t, cluster, object)
			deleteAtEnd(t, object)
		}
	}
	cluster.Install(t, objects, "")
	env.ChangeStatus(t, cluster, r.manager, func(d *appsv1.Deployment) {
		d.Status.Replicas, d.Status.ReadyReplicas = replicas, replicas
	})
	return r
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

// uninstall runs the Job's command. RBAC takes a moment, as for a Job, which tries again.
func (r *release) uninstall(t *testing.T) {
	t.Helper()
	tries := 0
	env.Eventually(t, func(context.Context) error {
		err := uninstall.Run(t.Context(), r.login, r.options)
		if err != nil && !apierrors.IsForbidden(err) {
			if tries++; tries == 5 { // The Job has as many tries.
				t.Fatalf("uninstalling: %v", err)
			}
		}
		return err
	})
}

// replicas returns how many replicas the manager shall have.
func (r *release) replicas(t *testing.T) int32 {
	t.Helper()
	return *env.Get(t, cluster, r.manager).Spec.Replicas
}

// play calls act with the object again and again, until act returns true. It is for a part of Kubernetes that works
// beside the Job. The test waits for it at the end.
func play(t *testing.T, act func(ctx context.Context) bool) (wait func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		env.Eventually(t, func(ctx context.Context) error {
			if act(ctx) {
				return nil
			}
			return errNotYet
		})
	}()
	return func() { <-done }
}

// node creates a virtual node.
func node(t *testing.T, name string, ready corev1.ConditionStatus) *corev1.Node {
	t.Helper()
	n := env.VirtualNode(name)
	env.Create(t, cluster, n)
	env.ChangeStatus(t, cluster, n, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	})
	return n
}

// proxy creates a proxy on a node, or a pending one if there is none.
func proxy(t *testing.T, namespace, name string, on *corev1.Node, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := env.Proxy(namespace, name, changes...)
	env.Create(t, cluster, pod)
	if on != nil {
		env.Bind(t, cluster, pod, on.Name)
	}
	return pod
}

func controlled(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)},
	}
}
