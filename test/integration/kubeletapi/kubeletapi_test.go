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
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

func TestWhoTheSourceKnowsGetsWhatTheSourceAllows(t *testing.T) {
	s := newStory(t, "")
	path := "/containerLogs/" + s.namespace + "/web/app?tailLines=3"
	admin := s.as(source.Config)
	if body := s.until(t, admin, path, http.StatusOK); body != s.delegate.Name+"/app tailLines=3" {
		t.Errorf("log %q", body)
	}

	t.Run("errors of the target's kubelet are told", func(t *testing.T) {
		code, body := s.get(t, admin, path+"&previous=true")
		if code != http.StatusBadRequest || !strings.Contains(body, "previous terminated container not found") || strings.HasPrefix(body, "{") {
			t.Errorf("answer %d %q", code, body)
		}
	})
	t.Run("errors of the target are told", func(t *testing.T) {
		code, body := s.get(t, admin, "/containerLogs/"+s.namespace+"/web/none")
		if code != http.StatusBadRequest || !strings.Contains(body, "container none is not valid for pod") {
			t.Errorf("answer %d %q", code, body)
		}
	})
	t.Run("nobody is anonymous", func(t *testing.T) {
		if code, body := s.get(t, s.as(nil), path); code != http.StatusUnauthorized {
			t.Errorf("answer %d %q", code, body)
		}
	})
	t.Run("certificates of others prove nothing", func(t *testing.T) {
		if code, body := s.get(t, s.as(target.Config), path); code != http.StatusUnauthorized {
			t.Errorf("answer %d %q", code, body)
		}
	})
	t.Run("a certificate without rights is refused", func(t *testing.T) {
		user, err := source.User("somebody")
		if err != nil {
			t.Fatal(err)
		}
		if code, body := s.get(t, s.as(user), path); code != http.StatusForbidden {
			t.Errorf("answer %d %q", code, body)
		}
	})
	t.Run("a token has the rights of its service account", func(t *testing.T) {
		caller := s.as(&rest.Config{BearerToken: s.token(t)})
		user := "system:serviceaccount:" + s.namespace + ":reader"
		grant(t, source, user, rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"nodes/log"}, ResourceNames: []string{nodeName}, Verbs: []string{"get"},
		})
		mayGet(t, user, "log", nodeName)
		s.until(t, caller, path, http.StatusOK)
		if code, body := s.get(t, caller, "/exec/"+s.namespace+"/web/app?command=id"); code != http.StatusForbidden {
			t.Errorf("exec is answered %d %q", code, body)
		}
	})
}

func TestPodsAreExplainedToThoseWhoMayAskAboutAllNodes(t *testing.T) {
	s := newStory(t, "")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "pending", UID: "1"}}
	s.scheduled.Looked(pod, "c2: too small", []diagnosis.Target{{Name: "c2", Node: nodeName, Reason: "too small"}})
	path := "/explain/" + s.namespace + "/pending"
	admin := s.as(source.Config)
	got := diagnosis.Explanation{}
	if err := json.Unmarshal([]byte(s.until(t, admin, path, http.StatusOK)), &got); err != nil {
		t.Fatal(err)
	}
	if got.UID != "1" || len(got.Targets) != 1 || got.Targets[0].Reason != "too small" {
		t.Errorf("got %+v", got)
	}
	if code, body := s.get(t, admin, "/explain/"+s.namespace+"/web"); code != http.StatusNotFound {
		t.Errorf("of a pod that is not known: %d %q", code, body)
	}

	user := "system:serviceaccount:" + s.namespace + ":reader"
	proxyRights := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/proxy"}, Verbs: []string{"get"}}
	one := proxyRights
	one.ResourceNames = []string{nodeName}
	grant(t, source, user, one)
	mayGet(t, user, "proxy", nodeName)
	reader := s.as(&rest.Config{BearerToken: s.token(t)})
	if code, body := s.get(t, reader, path); code != http.StatusForbidden {
		t.Errorf("who may ask about one node is answered %d %q", code, body)
	}
	other, err := source.User("explainer of " + s.namespace)
	if err != nil {
		t.Fatal(err)
	}
	grant(t, source, "explainer of "+s.namespace, proxyRights)
	mayGet(t, "explainer of "+s.namespace, "proxy", "")
	s.until(t, s.as(other), path, http.StatusOK)
}

func TestExecReachesTheDelegate(t *testing.T) {
	s := newStory(t, "")
	admin := s.as(source.Config)
	s.until(t, admin, "/containerLogs/"+s.namespace+"/web/app", http.StatusOK) // It listens, and knows its rights.
	location, err := url.Parse(admin.Host + "/exec/" + s.namespace + "/web/app?command=echo&command=hi&output=1&error=1")
	if err != nil {
		t.Fatal(err)
	}
	executors := map[string]func() (remotecommand.Executor, error){
		"SPDY": func() (remotecommand.Executor, error) {
			return remotecommand.NewSPDYExecutor(admin, http.MethodPost, location)
		},
		"WebSocket": func() (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(admin, http.MethodGet, location.String())
		},
	}
	for name, executor := range executors {
		t.Run(name, func(t *testing.T) {
			e, err := executor()
			if err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &errs}); err != nil {
				t.Fatal(err)
			}
			if got, want := errs.String(), s.delegate.Name+" app [echo hi]"; got != want {
				t.Errorf("the program got %q, want %q", got, want)
			}
		})
	}
	t.Run("without an upgrade the target's error is told", func(t *testing.T) {
		code, body := s.get(t, admin, location.RequestURI())
		if code != http.StatusBadRequest || !strings.Contains(body, "Upgrade request required") {
			t.Errorf("answer %d %q", code, body)
		}
	})
}

func TestASignerSignsTheServingCertificate(t *testing.T) {
	authority := newAuthority(t)
	s := newStory(t, certificatesv1.KubeletServingSignerName)
	s.until(t, s.as(nil), "/", http.StatusUnauthorized) // It serves before anything is signed.
	csr := &certificatesv1.CertificateSigningRequest{}
	apiserver.Eventually(t, func(ctx context.Context) error {
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
	apiserver.Eventually(t, func(ctx context.Context) error {
		dialer := &tls.Dialer{Config: &tls.Config{RootCAs: authority.pool()}}
		connection, err := dialer.DialContext(ctx, "tcp", s.address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}
