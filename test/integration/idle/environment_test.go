package idle

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/idle"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const user = "multicluster-scheduler"

var (
	source *env.Cluster
	// requests are the manager's requests for single pods: method and path.
	requests env.Journal
)

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	source = env.Start(t, "source")[0]
	env.Create(t, source, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
	source.Install(t, env.Render(t, env.Release, "--show-only", "templates/rbac/*.yaml"), user)
	source.Install(t, env.Render(t, env.Release, "--show-only", "templates/daemonsets.yaml",
		"--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"), "")
	login := env.Intercept(source.User(t, user), func(r *http.Request) *http.Response {
		if strings.Contains(r.URL.Path, "/pods/") {
			requests.Add(r.Method + " " + r.URL.Path + " ")
		}
		return nil
	})
	env.RunManager(t, login, func(mgr ctrl.Manager) error {
		return idle.New(idle.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Acknowledge: true, Clock: clock.RealClock{},
			Recorder: mgr.GetEventRecorder("idle"),
		}).Register(mgr)
	})
}

// createNode creates a node with a name that virtual nodes have.
func createNode(t *testing.T, namespace string, virtual bool) string {
	t.Helper()
	node := env.VirtualNode(translate.VirtualNodeName(types.NamespacedName{Namespace: namespace, Name: "c2"}))
	if !virtual {
		node.Labels = nil
	}
	env.Create(t, source, node)
	return node.Name
}

// createOn creates a pod that is bound to a node, and that an object of this kind controls, unless it is empty.
func createOn(t *testing.T, node, namespace, name, owner string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: env.Meta(namespace, name), Spec: env.PodSpec()}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: owner, Name: "owner", UID: "uid", Controller: ptr.To(true),
		}}
	}
	pod.Spec.NodeName = node
	env.Create(t, source, pod)
	return pod
}

// requestsFor returns how many requests the manager made for a pod.
func requestsFor(pod *corev1.Pod) int {
	path := " /api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name
	return len(requests.With(path+" ")) + len(requests.With(path+"/status "))
}
