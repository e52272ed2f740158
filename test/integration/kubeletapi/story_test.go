package kubeletapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/go-logr/logr/testr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/server"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const nodeName = "admiralty-c2"

// story is a kubelet API under test, and a proxy and its delegate.
type story struct {
	address   string // of the kubelet API
	namespace string
	delegate  *corev1.Pod
	scheduled *diagnosis.Store
}

func newStory(t *testing.T, signer string) *story {
	t.Helper()
	namespace := source.Namespace(t, nil)
	proxy := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "web",
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName, NodeName: nodeName,
			Containers: []corev1.Container{{Name: "app", Image: "app"}},
		},
	}
	if err := source.Client.Create(t.Context(), proxy); err != nil {
		t.Fatal(err)
	}
	s := &story{namespace: namespace, scheduled: diagnosis.NewStore(clock.RealClock{})}
	s.delegate = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: translate.DelegateName(proxy)},
		Spec:       corev1.PodSpec{NodeName: startKubelet(t), Containers: proxy.Spec.Containers},
	}
	if err := target.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	if err := target.Client.Create(t.Context(), s.delegate); err != nil {
		t.Fatal(err)
	}
	chaperon, err := translate.Chaperon(proxy, translate.Source{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Client.Create(t.Context(), chaperon); err != nil {
		t.Fatal(err)
	}
	s.address = serve(t, signer, s.scheduled)
	return s
}

// serve starts the kubelet API in front of the target, where it has the rights that the package names and no others.
func serve(t *testing.T, signer string, scheduled *diagnosis.Store) (address string) {
	t.Helper()
	identity := "source of " + t.Name()
	config, err := target.User(identity)
	if err != nil {
		t.Fatal(err)
	}
	grant(t, target, identity, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create", "get"}})
	registry := engage.NewRegistry()
	c2 := &engage.Target{Key: types.NamespacedName{Name: "c2"}, NodeName: nodeName, Config: config, Client: target.Client}
	if err := registry.Engage(t.Context(), c2); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	s, err := server.New(server.Options{
		Port: port, PodIP: net.IPv4(127, 0, 0, 1), Registry: registry, Reader: source.Client,
		Client: kubernetes.NewForConfigOrDie(source.Config), Explain: scheduled.Get, CertificateSignerName: signer, Clock: clock.RealClock{}, Logger: testr.New(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// grant gives a user of a cluster rights on everything that the rules name.
func grant(t *testing.T, cluster *apiserver.Cluster, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: rules}
	if err := cluster.Client.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if err := cluster.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
}

// as returns the configuration of a caller of the kubelet API who logs in as in the source, or as nobody if that is nil.
func (s *story) as(config *rest.Config) *rest.Config {
	caller := &rest.Config{Host: "https://" + s.address, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	if config != nil {
		caller.CertData, caller.KeyData, caller.BearerToken = config.CertData, config.KeyData, config.BearerToken
	}
	return caller
}

// get asks the kubelet API once it listens.
func (s *story) get(t *testing.T, caller *rest.Config, path string) (code int, body string) {
	t.Helper()
	client, err := rest.HTTPClientFor(caller)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	apiserver.Eventually(t, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, caller.Host+path, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		code, body = response.StatusCode, string(text)
		return err
	})
	return code, body
}

// until asks the kubelet API until it answers with the code: it learns of client CAs, and the API server of rights, a little later.
func (s *story) until(t *testing.T, caller *rest.Config, path string, code int) (body string) {
	t.Helper()
	apiserver.Eventually(t, func(context.Context) error {
		got, text := s.get(t, caller, path)
		if body = text; got != code {
			return fmt.Errorf("code %d, want %d: %s", got, code, body)
		}
		return nil
	})
	return body
}

// token makes the service account reader in the story's namespace and returns a token of it.
func (s *story) token(t *testing.T) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "reader"}}
	if err := source.Client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := source.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// mayGet waits until the source's API server knows that the user may get the subresource of the node, or of all if it is empty. The kubelet
// API remembers refusals for a while.
func mayGet(t *testing.T, user, subresource, node string) {
	t.Helper()
	apiserver.Eventually(t, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "nodes", Subresource: subresource, Name: node},
		}}
		if err := source.Client.Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return fmt.Errorf("%s may not get %s of node %q", user, subresource, node)
		}
		return nil
	})
}
