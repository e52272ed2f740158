package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const nowhere = "c2: no node has 100 free CPUs (largest: 1.8)"

// front plays c1's API server where a virtual node's kubelet API can be reached. API servers refuse nodes on the
// loopback address, and there is no other here. Everything but the nodes' proxy is c1's own.
func front(t *testing.T, known *diagnosis.Store) (kubeconfig string) {
	t.Helper()
	host, err := url.Parse(c1.Config.Host)
	env.Must(t, err)
	transport, err := rest.TransportFor(c1.Config)
	env.Must(t, err)
	rewrite := func(r *httputil.ProxyRequest) { r.SetURL(host) }
	mux := http.NewServeMux()
	mux.Handle("/", &httputil.ReverseProxy{Rewrite: rewrite, Transport: transport})
	const explained = "GET /api/v1/nodes/admiralty-c2/proxy/explain/{namespace}/{pod}"
	mux.HandleFunc(explained, func(w http.ResponseWriter, r *http.Request) {
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

// createVirtualNode creates a virtual node, and deletes it when the test ends.
func createVirtualNode(t *testing.T) {
	t.Helper()
	node := env.VirtualNode("admiralty-c2")
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = 1
	env.Create(t, c1, node)
}

// createPending creates an elected pod in an enabled namespace. The pod fits nowhere: its condition and an event say
// so.
func createPending(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := env.Proxy(env.Namespace(t, env.Enabled(), c1), "web")
	pod.Annotations[v1alpha1.AnnotationOriginalConstraints] = `{"nodeSelector":{"disk":"ssd"}}`
	cpus := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100")}
	pod.Spec.Containers[0].Resources.Requests = cpus
	env.Create(t, c1, pod)
	env.ChangeStatus(t, c1, pod, func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable, Message: nowhere,
		}}
	})
	env.Create(t, c1, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, GenerateName: "web-"}, EventTime: metav1.NowMicro(),
		Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Type:      corev1.EventTypeWarning, Reason: "FailedScheduling", Action: "Scheduling", Note: "event: " + nowhere,
		ReportingController: v1alpha1.SchedulerName, ReportingInstance: "i",
	})
	return pod
}

func TestExplain(t *testing.T) {
	createVirtualNode(t)
	known := diagnosis.NewStore(clock.RealClock{})
	path := front(t, known)

	t.Run("a pod that does not exist", func(t *testing.T) {
		mustFail(t, `there is no pod "none" in namespace "default"`, path, "explain", "pod", "none")
	})
	t.Run("a pod that does not take part", func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: env.Meta(env.Namespace(t, nil, c1), "web"), Spec: env.PodSpec()}
		env.Create(t, c1, pod)
		out := mustRun(t, path, "explain", "po/web", "-n", pod.Namespace)
		expectSays(t, out, "is not elected", "kubectl label namespace "+pod.Namespace)
	})
	t.Run("a pod that the manager knows", func(t *testing.T) {
		pod := createPending(t)
		reason := strings.TrimPrefix(nowhere, "c2: ")
		known.Looked(pod, nowhere, []diagnosis.Target{{Name: "c2", Node: "admiralty-c2", Reason: reason}})
		out := mustRun(t, path, "explain", "pod", "web", "-n", pod.Namespace)
		expectSays(t, out, "No target can take it now", "It needs: cpu 100; in the target, node selector disk=ssd",
			"c2       no        -       no node has 100 free CPUs (largest: 1.8)")
		if strings.Contains(out, "event: ") {
			t.Errorf("the output has events, too:\n%s", out)
		}
		var got struct{ Explanation diagnosis.Explanation }
		out = mustRun(t, path, "explain", "pod", "web", "-n", pod.Namespace, "-o", "json")
		env.Must(t, json.Unmarshal([]byte(out), &got))
		if got.Explanation.UID != pod.UID || got.Explanation.Message != nowhere {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a pod that the manager does not know", func(t *testing.T) {
		pod := createPending(t)
		out := mustRun(t, path, "explain", "pod", "web", "-n", pod.Namespace)
		expectSays(t, out, "The manager does not know", "Unschedulable: "+nowhere,
			"FailedScheduling   admiralty-proxy   event: "+nowhere)
	})
	t.Run("a pod of which the manager knows a namesake", func(t *testing.T) {
		pod := createPending(t)
		earlier := pod.DeepCopy()
		earlier.UID = "earlier"
		known.Bound(earlier, "admiralty-c2")
		out := mustRun(t, path, "explain", "pod", "web", "-n", pod.Namespace)
		expectSays(t, out, "only of another pod of this name", "Unschedulable: "+nowhere)
	})
	t.Run("a pod while no manager answers", func(t *testing.T) {
		pod := createPending(t)
		out := mustRun(t, kubeconfig(t, c1), "explain", "pod", "web", "-n", pod.Namespace)
		expectSays(t, out, "does not answer through node admiralty-c2", "event: "+nowhere)
	})
}

func TestExplainSaysWhichRightsAreMissing(t *testing.T) {
	createVirtualNode(t)
	pod := createPending(t)
	const user = "reader of pods"
	path := kubeconfigFor(t, c1.User(t, user))
	args := []string{"explain", "pod", "web", "-n", pod.Namespace}
	mustFail(t, "pods \"web\" is forbidden", path, args...)

	c1.Grant(t, user, "", env.Rule("", []string{"pods"}, "get"))
	waitUntilItSays(t, path, args, "you may not list nodes", "events cannot be read", "Unschedulable: "+nowhere)
	c1.Grant(t, user, "", env.Rule("", []string{"nodes", "events"}, "list"))
	waitUntilItSays(t, path, args,
		"the right get on nodes/proxy is missing (of node admiralty-c2, say)", "event: "+nowhere)
}

// waitUntilItSays runs the command until it says all of that: API servers learn of rights a little later.
func waitUntilItSays(t *testing.T, kubeconfig string, args []string, wants ...string) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		_, out, errOut := command(t, kubeconfig, args...)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				return fmt.Errorf("it does not say %q:\n%s%s", want, out, errOut)
			}
		}
		return nil
	})
}
