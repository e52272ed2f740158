package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/usage"
)

const (
	nodeName    = "admiralty-c2"
	sourceToken = "the-source-in-the-target"
)

// fixture is a Server between a source and a target. The tests act as their API servers.
type fixture struct {
	served   *Server
	server   *httptest.Server
	registry *engage.Registry
	target   *engage.Target
	delegate string
	clock    *clocktesting.FakeClock
	leads    chan struct{}
}

// newFixture serves the proxy default/web on nodeName, whose target is upstream. The keys of rights are valid tokens.
func newFixture(t *testing.T, upstream http.HandlerFunc, rights map[string][]string) *fixture {
	t.Helper()
	api := httptest.NewTLSServer(withMetrics(upstream))
	t.Cleanup(api.Close)
	source := httptest.NewServer(reviews(t, rights))
	t.Cleanup(source.Close)
	proxy := pod("web", nodeName)
	plain := pod("plain", "real-node")
	plain.Spec.SchedulerName = corev1.DefaultSchedulerName
	pods := fake.NewClientBuilder().WithObjects(proxy, plain, pod("unbound", ""), pod("elsewhere", "admiralty-c3"),
		pod("forged", nodeName), pod("lost", nodeName)).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).Build()
	target := &engage.Target{
		Key:      types.NamespacedName{Name: "c2"},
		NodeName: nodeName,
		Client:   chaperons(t, proxy),
		Config: &rest.Config{
			Host: api.URL, BearerToken: sourceToken,
			TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(api.Certificate().Raw)},
		},
	}
	registry := engage.NewRegistry()
	if err := registry.Engage(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	leads := make(chan struct{})
	s, err := New(Options{
		Usage: usage.New(usage.Options{
			Registry: registry, Proxies: pods, ClusterID: "c1", Clock: clock, Logger: testr.New(t),
		}),
		Leads:    leads,
		Registry: registry, Reader: pods, Clock: clock, Logger: testr.New(t),
		Explain: explained,
		Client:  kubernetes.NewForConfigOrDie(&rest.Config{Host: source.URL}),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(s.routes())
	t.Cleanup(server.Close)
	return &fixture{
		served: s, server: server, registry: registry, target: target, clock: clock, leads: leads,
		delegate: translate.DelegateName(proxy),
	}
}

// explained has an explanation of one pod.
func explained(pod types.NamespacedName) (diagnosis.Explanation, bool) {
	known := diagnosis.Explanation{Namespace: pod.Namespace, Name: pod.Name, Message: "c2: too small"}
	return known, pod.Name == "unbound"
}

// chaperons returns a client of the target with two PodChaperons: the proxy's, and one with the name of the proxy
// "forged" and another parent.
func chaperons(t *testing.T, proxy *corev1.Pod) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{}
	for _, p := range []*corev1.Pod{proxy, pod("forged", nodeName)} {
		objects = append(objects, &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: translate.DelegateName(p),
			Labels: map[string]string{v1alpha1.LabelParentUID: string(proxy.UID)},
			Annotations: map[string]string{
				v1alpha1.AnnotationParentNamespace: proxy.Namespace, v1alpha1.AnnotationParentName: proxy.Name,
			},
		}})
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// withMetrics adds a metrics API with the usage of the delegate of default/web.
func withMetrics(upstream http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	if upstream != nil {
		mux.Handle("/", upstream)
	}
	const metricsPath = "GET /apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
	mux.HandleFunc(metricsPath, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"items":[{"metadata":{"name":%q},"timestamp":"1970-01-01T01:00:00Z","window":"15s",
			"containers":[{"name":"app","usage":{"cpu":"1500m","memory":"1Mi"}}]}]}`,
			translate.DelegateName(pod("web", nodeName)))
	})
	return mux
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-of-" + name),
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName, NodeName: node,
			EphemeralContainers: []corev1.EphemeralContainer{{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"},
			}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(0, 0))},
			}}},
		},
	}
}

// reviews acts as the source's API server. A token is also the name of its user, whose rights have the form
// "<verb> nodes/<subresource> <node>".
func reviews(t *testing.T, rights map[string][]string) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		review := decode[authenticationv1.TokenReview](t, r)
		_, review.Status.Authenticated = rights[review.Spec.Token]
		review.Status.User.Username = review.Spec.Token
		encode(t, w, review)
	})
	const reviewPath = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
	mux.HandleFunc(reviewPath, func(w http.ResponseWriter, r *http.Request) {
		review := decode[authorizationv1.SubjectAccessReview](t, r)
		a := review.Spec.ResourceAttributes
		right := a.Verb + " " + a.Resource + "/" + a.Subresource + " " + a.Name
		review.Status.Allowed = slices.Contains(rights[review.Spec.User], right)
		encode(t, w, review)
	})
	return mux
}

func decode[T any](t *testing.T, r *http.Request) *T {
	t.Helper()
	object := new(T)
	if err := json.NewDecoder(r.Body).Decode(object); err != nil {
		t.Error(err)
	}
	return object
}

func encode(t *testing.T, w http.ResponseWriter, object any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		t.Error(err)
	}
}
