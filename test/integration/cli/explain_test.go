package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const nowhere = "c2: no node has 100 free CPUs (largest: 1.8)"

// front plays c1's API server where a virtual node's kubelet API can be reached. API servers refuse nodes on the loopback address, and there is no
// other here. Everything but the nodes' proxy is c1's own.
func front(t *testing.T, known *diagnosis.Store) (kubeconfig string) {
	t.Helper()
	host, err := url.Parse(c1.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	if host.Host == "" {
		host = &url.URL{Scheme: "https", Host: c1.Config.Host}
	}
	transport, err := rest.TransportFor(c1.Config)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(host) }, Transport: transport})
	mux.HandleFunc("GET /api/v1/nodes/admiralty-c2/proxy/explain/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		got, ok := known.Get(types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")})
		if !ok {
			http.Error(w, "It is not known here.", http.StatusNotFound)
			return
		}
		if err := json.NewEncoder(w).Encode(got); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return kubeconfigFor(t, &rest.Config{Host: server.URL})
}

func kubeconfigFor(t *testing.T, config *rest.Config) string {
	t.Helper()
	k := clientcmdapi.NewConfig()
	k.Clusters["c1"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	k.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	k.Contexts["c1"] = &clientcmdapi.Context{Cluster: "c1", AuthInfo: "u"}
	k.CurrentContext = "c1"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := c1.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// virtualNode makes one for as long as the test runs.
func virtualNode(t *testing.T) {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "admiralty-c2", Labels: map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}},
		Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 1}},
		},
	}
	create(t, node)
	t.Cleanup(func() {
		if err := c1.Client.Delete(context.WithoutCancel(t.Context()), node); err != nil {
			t.Error(err)
		}
	})
}

// pendingPod makes an elected pod in an enabled namespace that fits nowhere, as its condition and an event say.
func pendingPod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: c1.Namespace(t, map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue}),
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: `{"nodeSelector":{"disk":"ssd"}}`},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName,
			Containers: []corev1.Container{{Name: "app", Image: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100")},
			}}},
		},
	}
	create(t, pod)
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: nowhere,
	}}
	if err := c1.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	create(t, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, GenerateName: "web-"}, EventTime: metav1.NowMicro(),
		Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Type: corev1.EventTypeWarning,
		Reason: "FailedScheduling", Action: "Scheduling", Note: "event: " + nowhere, ReportingController: v1alpha1.SchedulerName, ReportingInstance: "i",
	})
	return pod
}

func TestExplain(t *testing.T) {
	virtualNode(t)
	known := diagnosis.NewStore(clock.RealClock{})
	path := front(t, known)

	t.Run("a pod that does not exist", func(t *testing.T) {
		mustFail(t, `there is no pod "none" in namespace "default"`, path, "explain", "pod", "none")
	})
	t.Run("a pod that does not take part", func(t *testing.T) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: c1.Namespace(t, nil), Name: "web"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		}
		create(t, pod)
		says(t, mustRun(t, path, "explain", "po/web", "-n", pod.Namespace), "is not elected", "kubectl label namespace "+pod.Namespace)
	})
	t.Run("a pod that the manager knows", func(t *testing.T) {
		pod := pendingPod(t)
		known.Looked(pod, nowhere, []diagnosis.Target{{Name: "c2", Node: "admiralty-c2", Reason: strings.TrimPrefix(nowhere, "c2: ")}})
		out := mustRun(t, path, "explain", "pod", "web", "-n", pod.Namespace)
		says(t, out, "No target can take it now", "It needs: cpu 100; in the target, node selector disk=ssd",
			"c2       no        -       no node has 100 free CPUs (largest: 1.8)")
		if strings.Contains(out, "event: ") {
			t.Errorf("events, too:\n%s", out)
		}
		var got struct{ Explanation diagnosis.Explanation }
		if err := json.Unmarshal([]byte(mustRun(t, path, "explain", "pod", "web", "-n", pod.Namespace, "-o", "json")), &got); err != nil {
			t.Fatal(err)
		}
		if got.Explanation.UID != pod.UID || got.Explanation.Message != nowhere {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a pod that the manager does not know", func(t *testing.T) {
		pod := pendingPod(t)
		out := mustRun(t, path, "explain", "pod", "web", "-n", pod.Namespace)
		says(t, out, "The manager does not know", "Unschedulable: "+nowhere, "FailedScheduling   admiralty-proxy   event: "+nowhere)
	})
	t.Run("a pod of which the manager knows a namesake", func(t *testing.T) {
		pod := pendingPod(t)
		earlier := pod.DeepCopy()
		earlier.UID = "earlier"
		known.Bound(earlier, "admiralty-c2")
		says(t, mustRun(t, path, "explain", "pod", "web", "-n", pod.Namespace), "only of another pod of this name", "Unschedulable: "+nowhere)
	})
	t.Run("nobody answers", func(t *testing.T) {
		pod := pendingPod(t)
		says(t, mustRun(t, kubeconfig(t, c1), "explain", "pod", "web", "-n", pod.Namespace), "does not answer through node admiralty-c2", "event: "+nowhere)
	})
}

func TestExplainSaysWhichRightsAreMissing(t *testing.T) {
	virtualNode(t)
	pod := pendingPod(t)
	config, err := c1.User("reader of pods")
	if err != nil {
		t.Fatal(err)
	}
	path := kubeconfigFor(t, config)
	args := []string{"explain", "pod", "web", "-n", pod.Namespace}
	mustFail(t, "pods \"web\" is forbidden", path, args...)

	grant(t, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	untilItSays(t, path, args, "you may not list nodes", "events cannot be read", "Unschedulable: "+nowhere)
	grant(t, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "events"}, Verbs: []string{"list"}})
	untilItSays(t, path, args, "the right get on nodes/proxy is missing (of node admiralty-c2, say)", "event: "+nowhere)
}

func grant(t *testing.T, rule rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: []rbacv1.PolicyRule{rule}}
	create(t, role)
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader of pods"}},
	})
}

// untilItSays runs the command until it says all of that: API servers learn of rights a little later.
func untilItSays(t *testing.T, kubeconfig string, args []string, wants ...string) {
	t.Helper()
	apiserver.Eventually(t, func(context.Context) error {
		_, out, errOut := command(t, kubeconfig, args...)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				return fmt.Errorf("it does not say %q:\n%s%s", want, out, errOut)
			}
		}
		return nil
	})
}

func says(t *testing.T, out string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}
