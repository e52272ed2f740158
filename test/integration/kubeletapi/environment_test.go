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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/porttest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/server"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const nodeName = "admiralty-c2"

// answer is that of the kubelet API about a pod that is explained.
type answer = diagnosis.Explanation

var source, target *env.Cluster

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		clusters := env.Start(t, "source", "target")
		source, target = clusters[0], clusters[1]
	})
}

// kubeletAPI is a kubelet API under test, and the proxy web with its delegate.
type kubeletAPI struct {
	address   string
	namespace string
	delegate  *corev1.Pod
	scheduled *diagnosis.Store
}

// key is the target's.
var key = types.NamespacedName{Name: "c2"}

// start starts a kubelet API. The signer signs its serving certificate, unless signer is empty.
func start(t testing.TB, signer string) *kubeletAPI {
	t.Helper()
	namespace := env.Namespace(t, nil, source, target)
	proxy := env.Proxy(namespace, "web", func(pod *corev1.Pod) { pod.Spec.NodeName = nodeName })
	env.Create(t, source, proxy)
	delegate := &corev1.Pod{ObjectMeta: env.Meta(namespace, translate.DelegateName(proxy)), Spec: env.PodSpec()}
	delegate.Spec.NodeName = startKubelet(t)
	proved, err := env.Sign(proof.ClaimOf(proxy, key))
	env.Must(t, err)
	chaperon, err := translate.Chaperon(proxy, translate.Source{}, translate.Destination{Target: key, Proof: proved})
	env.Must(t, err)
	env.Create(t, target, delegate, chaperon)
	api := &kubeletAPI{namespace: namespace, delegate: delegate, scheduled: diagnosis.NewStore(clock.RealClock{})}
	api.serve(t, signer)
	return api
}

// serve serves the kubelet API in front of the target, where it has the rights that the package names and no others.
func (api *kubeletAPI) serve(t testing.TB, signer string) {
	t.Helper()
	c2 := env.NewTarget(target, key)
	user := "source of " + t.Name()
	c2.Login = target.User(t, user)
	target.Grant(t, user, "",
		env.Rule("", []string{"pods/log"}, "get"),
		env.Rule("", []string{"pods/exec", "pods/attach", "pods/portforward"}, "create", "get"))
	c2.Customize = func(e *engage.Target) { e.Client = target.Client }
	registry := engage.NewRegistry()
	c2.Engage(t, registry)
	port := porttest.Free(t)
	s, err := server.New(server.Options{
		Port: port, PodIP: net.IPv4(127, 0, 0, 1), Registry: registry, Reader: source.Client,
		Client: kubernetes.NewForConfigOrDie(source.Config), Explain: api.scheduled.Get, CertificateSignerName: signer,
		Clock: clock.RealClock{}, Logger: testr.NewWithInterface(t, testr.Options{}),
	})
	env.Must(t, err)
	env.Run(t, s.Start)
	api.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// exclude remembers that a pod fits in no target, for a reason.
func (api *kubeletAPI) exclude(pod *corev1.Pod, reason string) {
	api.scheduled.Looked(pod, "c2: "+reason, []diagnosis.Target{{Name: "c2", Node: nodeName, Reason: reason}})
}

// caller returns the login of a caller of the kubelet API who logs in as in the source, or as nobody if that is nil.
func (api *kubeletAPI) caller(login *rest.Config) *rest.Config {
	caller := &rest.Config{Host: "https://" + api.address, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	if login != nil {
		caller.CertData, caller.KeyData, caller.BearerToken = login.CertData, login.KeyData, login.BearerToken
	}
	return caller
}

// get asks the kubelet API once it listens.
func get(t testing.TB, caller *rest.Config, path string) (code int, body string) {
	t.Helper()
	client, err := rest.HTTPClientFor(caller)
	env.Must(t, err)
	defer client.CloseIdleConnections()
	env.Eventually(t, func(ctx context.Context) error {
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

// expectCode checks with which code the kubelet API answers.
func expectCode(t *testing.T, caller *rest.Config, path string, want int) {
	t.Helper()
	if code, body := get(t, caller, path); code != want {
		t.Errorf("the answer to %s is %d, want %d: %s", path, code, want, body)
	}
}

// waitForCode asks the kubelet API until it answers with the code: the kubelet API learns of client CAs, and the API
// server of rights, a little later.
func waitForCode(t testing.TB, caller *rest.Config, path string, want int) (body string) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		code, text := get(t, caller, path)
		if body = text; code != want {
			return fmt.Errorf("code %d, want %d: %s", code, want, body)
		}
		return nil
	})
	return body
}
