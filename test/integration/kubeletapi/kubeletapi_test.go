package kubeletapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestTheKubeletAPIAnswersTheUsersOfTheSourceByTheirRights(t *testing.T) {
	api := start(t, "")
	path := "/containerLogs/" + api.namespace + "/web/app?tailLines=3"
	admin := api.caller(source.Config)
	if body := waitForCode(t, admin, path, http.StatusOK); body != api.delegate.Name+"/app tailLines=3" {
		t.Errorf("log %q", body)
	}

	t.Run("an error of the target's kubelet is the answer", func(t *testing.T) {
		code, body := get(t, admin, path+"&previous=true")
		plain := strings.Contains(body, "previous terminated container not found") && !strings.HasPrefix(body, "{")
		if code != http.StatusBadRequest || !plain {
			t.Errorf("answer %d %q", code, body)
		}
	})
	t.Run("an error of the target is the answer", func(t *testing.T) {
		code, body := get(t, admin, "/containerLogs/"+api.namespace+"/web/none")
		if code != http.StatusBadRequest || !strings.Contains(body, "container none is not valid for pod") {
			t.Errorf("answer %d %q", code, body)
		}
	})
	t.Run("a caller without a login is refused", func(t *testing.T) {
		expectCode(t, api.caller(nil), path, http.StatusUnauthorized)
	})
	t.Run("a certificate of another cluster is refused", func(t *testing.T) {
		expectCode(t, api.caller(target.Config), path, http.StatusUnauthorized)
	})
	t.Run("a certificate of a user without rights is refused", func(t *testing.T) {
		expectCode(t, api.caller(source.User(t, "somebody")), path, http.StatusForbidden)
	})
	t.Run("a token has the rights of its service account", func(t *testing.T) {
		user, caller := api.reader(t)
		rule := env.Rule("", []string{"nodes/log"}, "get")
		rule.ResourceNames = []string{nodeName}
		source.Grant(t, user, "", rule)
		waitForCode(t, caller, path, http.StatusOK)
		expectCode(t, caller, "/exec/"+api.namespace+"/web/app?command=id", http.StatusForbidden)
	})
}

// reader creates the service account reader, and returns its user name and a login with its token.
func (api *kubeletAPI) reader(t *testing.T) (user string, caller *rest.Config) {
	t.Helper()
	login := source.Token(t, &corev1.ServiceAccount{ObjectMeta: env.Meta(api.namespace, "reader")})
	return env.ServiceAccountUser(api.namespace, "reader"), api.caller(login)
}

func TestPodsAreExplainedToCallersWhoMayAskAboutAllNodes(t *testing.T) {
	api := start(t, "")
	pod := &corev1.Pod{ObjectMeta: env.Meta(api.namespace, "pending")}
	pod.UID = "1"
	api.exclude(pod, "too small")
	path := "/explain/" + api.namespace + "/pending"
	admin := api.caller(source.Config)
	got := answer{}
	env.Must(t, json.Unmarshal([]byte(waitForCode(t, admin, path, http.StatusOK)), &got))
	if got.UID != "1" || len(got.Targets) != 1 || got.Targets[0].Reason != "too small" {
		t.Errorf("got %+v", got)
	}
	expectCode(t, admin, "/explain/"+api.namespace+"/web", http.StatusNotFound) // It is not known.

	user, caller := api.reader(t)
	allNodes := env.Rule("", []string{"nodes/proxy"}, "get")
	oneNode := allNodes
	oneNode.ResourceNames = []string{nodeName}
	source.Grant(t, user, "", oneNode)
	expectCode(t, caller, path, http.StatusForbidden)

	other := "explainer of " + api.namespace
	source.Grant(t, other, "", allNodes)
	waitForCode(t, api.caller(source.User(t, other)), path, http.StatusOK)
}

func TestExecReachesTheDelegate(t *testing.T) {
	api := start(t, "")
	admin := api.caller(source.Config)
	// It listens, and knows its rights.
	waitForCode(t, admin, "/containerLogs/"+api.namespace+"/web/app", http.StatusOK)
	path := "/exec/" + api.namespace + "/web/app?command=echo&command=hi&input=1&output=1&error=1"
	location, err := url.Parse(admin.Host + path)
	env.Must(t, err)
	for name, newExecutor := range map[string]func() (remotecommand.Executor, error){
		"exec over SPDY": func() (remotecommand.Executor, error) {
			return remotecommand.NewSPDYExecutor(admin, http.MethodPost, location)
		},
		"exec over WebSocket": func() (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(admin, http.MethodGet, location.String())
		},
	} {
		t.Run(name, func(t *testing.T) {
			executor, err := newExecutor()
			env.Must(t, err)
			var out, errs bytes.Buffer
			streams := remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errs}
			env.Must(t, executor.StreamWithContext(t.Context(), streams))
			env.ExpectEqual(t, "output of the program", "hello", out.String())
			env.ExpectEqual(t, "arguments of the program", api.delegate.Name+" app [echo hi]", errs.String())
		})
	}
	t.Run("exec without an upgrade gets the target's error", func(t *testing.T) {
		code, body := get(t, admin, location.RequestURI())
		if code != http.StatusBadRequest || !strings.Contains(body, "Upgrade request required") {
			t.Errorf("answer %d %q", code, body)
		}
	})
}

func TestASignerSignsTheServingCertificate(t *testing.T) {
	authority := newAuthority(t)
	api := start(t, certificatesv1.KubeletServingSignerName)
	waitForCode(t, api.caller(nil), "/", http.StatusUnauthorized) // It serves before anything is signed.
	csr := &certificatesv1.CertificateSigningRequest{}
	env.Eventually(t, func(ctx context.Context) error {
		list := &certificatesv1.CertificateSigningRequestList{}
		if err := source.Client.List(ctx, list); err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d requests", len(list.Items))
		}
		csr = &list.Items[0]
		return nil
	})
	authority.sign(t, csr)
	env.Eventually(t, func(ctx context.Context) error {
		dialer := &tls.Dialer{Config: &tls.Config{RootCAs: authority.pool()}}
		connection, err := dialer.DialContext(ctx, "tcp", api.address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}
