package server

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const logsPath = "/containerLogs/default/web/app"

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// everyone returns the rights of four users: admin has the rights of an API server, reader may read all of the node.
func everyone() map[string][]string {
	return map[string][]string{
		"admin": {
			"get nodes/proxy " + nodeName, "create nodes/proxy " + nodeName,
			"get nodes/proxy real-node", "create nodes/proxy real-node", "get nodes/proxy admiralty-c3",
			"get nodes/proxy ", "create nodes/proxy ",
		},
		"reader":  {"get nodes/log " + nodeName, "get nodes/proxy " + nodeName},
		"logs":    {"get nodes/log " + nodeName},
		"meter":   {"get nodes/metrics " + nodeName, "get nodes/metrics admiralty-c3", "get nodes/metrics "},
		"stats":   {"get nodes/stats " + nodeName},
		"pods":    {"get nodes/pods " + nodeName},
		"health":  {"get nodes/healthz " + nodeName},
		"nothing": {},
	}
}

func (f *fixture) request(t *testing.T, method, path, token string, headers ...string) (code int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, f.server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, header := range headers {
		key, value, _ := strings.Cut(header, ": ")
		r.Header.Add(key, value)
	}
	response, err := f.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestAccessToTheKubeletAPI(t *testing.T) {
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }, everyone())
	tests := map[string]struct {
		method, path, token string
		code                int
		says                string
	}{
		"an API server gets logs":                 {"GET", logsPath, "admin", 200, "hello"},
		"nodes/log is enough for logs":            {"GET", logsPath, "logs", 200, "hello"},
		"a request without a token is refused":    {"GET", logsPath, "", 401, "Unauthorized"},
		"an unknown token is refused":             {"GET", logsPath, "guess", 401, "Unauthorized"},
		"another path without a token is refused": {"GET", "/metrics", "", 401, "Unauthorized"},
		"a user without rights is refused": {
			"GET", logsPath, "nothing", 403,
			"user=nothing, verb=get, resource=nodes, subresource(s)=[log proxy])",
		},
		"a user with the right to get logs may not exec": {
			"POST", "/exec/default/web/app?command=id", "logs", 403, "subresource(s)=[proxy]",
		},
		"a user with the right to read nodes may not exec by WebSocket": {
			"GET", "/exec/default/web/app?command=id", "reader", 403, "verb=create",
		},
		"a user without rights on all nodes does not learn which pods exist": {
			"GET", "/containerLogs/default/none/app", "logs", 403, "Forbidden",
		},
		"a pod that does not exist is not found": {
			"GET", "/containerLogs/default/none/app", "admin", 404, `"default/none" is not known`,
		},
		"a pod that is no proxy is not found": {
			"GET", "/containerLogs/default/plain/app", "admin", 404, "does not run in another cluster",
		},
		"a proxy that is not bound is not found": {
			"GET", "/containerLogs/default/unbound/app", "admin", 404, "not bound",
		},
		"a target that is not connected is reported": {
			"GET", "/containerLogs/default/elsewhere/app", "admin", 503, "condition Connected",
		},
		"a proxy without a delegate is reported": {
			"GET", "/containerLogs/default/lost/app", "admin", 404, `"default/lost" has no delegate`,
		},
		"a delegate of another pod is not shown": {
			"GET", "/containerLogs/default/forged/app", "admin", 404, `"default/forged" has no delegate`,
		},
		"a pod with an explanation is explained": {
			"GET", "/explain/default/unbound", "admin", 200,
			`{"namespace":"default","name":"unbound","uid":"","message":"c2: too small"}`,
		},
		"a pod without an explanation is reported": {
			"GET", "/explain/default/web", "admin", 404, `not known here how pod "default/web" was scheduled`,
		},
		"an explanation takes a right on all nodes": {
			"GET", "/explain/default/unbound", "reader", 403, "verb=get, resource=nodes, subresource(s)=[proxy])",
		},
		"an explanation without a token is refused": {"GET", "/explain/default/unbound", "", 401, "Unauthorized"},
		"an explanation cannot be posted": {
			"POST", "/explain/default/unbound", "admin", 404, "nothing else",
		},
		"a user with the right to read nodes may not attach by WebSocket": {
			"GET", "/attach/default/web/app", "reader", 403, "verb=create",
		},
		"a user with the right to read nodes may not forward ports by WebSocket": {
			"GET", "/portForward/default/web", "reader", 403, "verb=create",
		},
		"no port of a pod that is no proxy is forwarded": {
			"POST", "/portForward/default/plain", "admin", 404, "does not run in another cluster",
		},
		"nobody attaches to a delegate of another pod": {
			"POST", "/attach/default/forged/app", "admin", 404, `"default/forged" has no delegate`,
		},
		"other paths are not served": {"POST", "/checkpoint/default/web/app", "admin", 404, "nothing else"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, body := f.request(t, test.method, test.path, test.token)
			if code != test.code || !strings.Contains(body, test.says) {
				t.Errorf("answer %d %q, want %d %q", code, body, test.code, test.says)
			}
		})
	}
}

// The node of a pod is a fact about the pod, so it is for those only who may see the pod's node.
func TestA403DoesNotNameTheNode(t *testing.T) {
	f := newFixture(t, nil, everyone())
	_, want := f.request(t, "GET", "/containerLogs/default/none/app", "nothing")
	for _, pod := range []string{"web", "elsewhere", "plain", "unbound"} {
		code, got := f.request(t, "GET", "/containerLogs/default/"+pod+"/app", "nothing")
		if code != http.StatusForbidden || strings.Contains(got, "admiralty-") || strings.Contains(got, "real-node") {
			t.Errorf("pod %q: answer %d %q, want 403 and no node", pod, code, got)
		}
		if got != want {
			t.Errorf("pod %q: answer %q differs from that about a pod that does not exist: %q", pod, got, want)
		}
	}
}

func TestTargetSeesOnlyTheSourcesCredentials(t *testing.T) {
	var got *http.Request
	f := newFixture(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.WithoutCancel(r.Context()))
	}, everyone())
	const query = "?tailLines=3&follow=true&stream=All&container=other&insecureSkipTLSVerifyBackend=true"
	f.request(t, "GET", logsPath+query, "admin",
		"Impersonate-User: root", "X-Remote-User: root", "Cookie: a=b",
		"Sec-WebSocket-Protocol: v5.channel.k8s.io, "+tokenProtocol+"YWRtaW4")
	if want := "/api/v1/namespaces/default/pods/" + f.delegate + "/log"; got.URL.Path != want {
		t.Errorf("path %q, want %q", got.URL.Path, want)
	}
	want := url.Values{"tailLines": {"3"}, "follow": {"true"}, "stream": {"All"}, "container": {"app"}}
	if diff := cmp.Diff(want, got.URL.Query()); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
	got.Header.Del("User-Agent")
	headers := http.Header{"Authorization": {"Bearer " + sourceToken}, "Sec-Websocket-Protocol": {"v5.channel.k8s.io"}}
	if diff := cmp.Diff(headers, got.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestErrorsOfTheTargetReachTheCaller(t *testing.T) {
	status := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		encode(t, w, metav1.Status{
			Status: metav1.StatusFailure, Message: `container "app" is waiting to start`, Code: 400,
		})
	}
	tests := map[string]struct {
		method, path string
		upstream     func(http.ResponseWriter)
		code         int
		says         string
		json         bool
	}{
		"an error of logs is the target's message": {
			"GET", logsPath, status, 400, `container "app" is waiting to start`, false,
		},
		"an error of exec is the target's object": {
			"POST", "/exec/default/web/app", status, 400, `is waiting to start`, true,
		},
		"a redirect is refused": {"GET", logsPath, func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://elsewhere.invalid/")
			w.WriteHeader(http.StatusFound)
		}, 502, "redirect", false},
		"a broken connection is reported": {
			"GET", logsPath, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 502, "cannot be reached", false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(w http.ResponseWriter, _ *http.Request) { test.upstream(w) }, everyone())
			code, body := f.request(t, test.method, test.path, "admin")
			if code != test.code || !strings.Contains(body, test.says) || strings.HasPrefix(body, "{") != test.json {
				t.Errorf("answer %d %q, want %d %q (JSON: %t)", code, body, test.code, test.says, test.json)
			}
		})
	}
}

func TestUnreachableTargetGetsNoRequests(t *testing.T) {
	f := newFixture(t, func(http.ResponseWriter, *http.Request) { t.Error("the target got a request") }, everyone())
	f.registry.Lose(f.target)
	if code, body := f.request(t, "GET", logsPath, "admin"); code != http.StatusServiceUnavailable {
		t.Errorf("answer %d %q", code, body)
	}
}

func TestServerWithoutExplanations(t *testing.T) {
	f := newFixture(t, nil, everyone())
	f.served.options.Explain = nil
	if code, body := f.request(t, "GET", "/explain/default/unbound", "admin"); code != http.StatusNotFound ||
		!strings.Contains(body, "not explained here") {
		t.Errorf("answer %d %q", code, body)
	}
}
