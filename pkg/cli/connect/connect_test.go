package connect

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestValidateOptions(t *testing.T) {
	good := options{name: "c2", targetContext: "c2"}
	cases := map[string]struct {
		change func(*options)
		want   string // part of the error; empty if there is none
	}{
		"only a name and a target":             {func(*options) {}, ""},
		"the source itself":                    {func(o *options) { o.self, o.targetContext = true, "" }, ""},
		"no target":                            {func(o *options) { o.targetContext = "" }, "--target-context"},
		"the source itself and another target": {func(o *options) { o.self = true }, "leave out"},
		"a name that no object can have":       {func(o *options) { o.name = "C_2" }, `"C_2"`},
		"a namespace for a ClusterTarget":      {func(o *options) { o.namespace = "team-a" }, "--namespaced"},
		"a source name with capital letters":   {func(o *options) { o.sourceName = "C1" }, "--source-name"},
		"a server without scheme":              {func(o *options) { o.server = "10.0.0.1:6443" }, "https://"},
		"a token that expires at once":         {func(o *options) { o.tokenDuration = time.Minute }, "10 minutes"},
		"the shortest token":                   {func(o *options) { o.tokenDuration = 10 * time.Minute }, ""},
		"a new token":                          {func(o *options) { o.renew = true }, ""},
		"a new token at another address": {
			func(o *options) { o.renew, o.server = true, "https://c2:6443" }, "leave out --server",
		},
		"a new token for the source itself": {
			func(o *options) { o.renew, o.self, o.targetContext = true, true, "" }, "--renew is for tokens",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := good
			c.change(&o)
			err := o.validate()
			if c.want == "" && err != nil {
				t.Fatal(err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestKubeconfigIsSelfContained(t *testing.T) {
	config := &rest.Config{
		Host: "https://127.0.0.1:6443",
		TLSClientConfig: rest.TLSClientConfig{
			CAData: []byte("context's"), CertData: []byte("admin"), KeyData: []byte("admin"), ServerName: "c2",
		},
	}
	issued := token{value: "secret", ca: []byte("pods'")}
	noCA := rest.CopyConfig(config)
	noCA.CAData = nil
	insecure := rest.CopyConfig(noCA)
	insecure.Insecure = true

	type login struct{ Server, CA, Name, Token string }
	cases := map[string]struct {
		config *rest.Config
		server string
		want   login
	}{
		"the context's address and authority": {
			config, "", login{"https://127.0.0.1:6443", "context's", "c2", "secret"},
		},
		"another address": {
			config, "https://c2:6443", login{"https://c2:6443", "context's", "c2", "secret"},
		},
		"a context that trusts public certificates": {noCA, "", login{"https://127.0.0.1:6443", "", "c2", "secret"}},
		"a context that trusts everything": {
			insecure, "", login{"https://127.0.0.1:6443", "pods'", "c2", "secret"},
		},
		"a context that trusts public certificates, and its own address": {
			noCA, "https://127.0.0.1:6443", login{"https://127.0.0.1:6443", "", "c2", "secret"},
		},
		"a context that trusts public certificates, and another address": {
			noCA, "https://c2:6443", login{"https://c2:6443", "pods'", "c2", "secret"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := kubeconfigFor(c.config, c.server, issued)
			if err != nil {
				t.Fatal(err)
			}
			got, err := clientcmd.RESTConfigFromKubeConfig(raw)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.CertData)+len(got.KeyData) > 0 {
				t.Error("the kubeconfig has the administrator's own key")
			}
			gotLogin := login{got.Host, string(got.CAData), got.ServerName, got.BearerToken}
			if diff := cmp.Diff(c.want, gotLogin); diff != "" {
				t.Errorf("login (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyTheTokenIsReplaced(t *testing.T) {
	const kubeconfig = `apiVersion: v1
kind: Config
current-context: first
contexts:
- {name: first, context: {cluster: c2, user: a}}
- {name: second, context: {cluster: c2, user: b}}
- {name: certified, context: {cluster: c2, user: c}}
clusters: [{name: c2, cluster: {server: "https://c2:6443", tls-server-name: kubernetes}}]
users:
- {name: a, user: {token: old-a}}
- {name: b, user: {token: old-b}}
- {name: c, user: {client-certificate-data: AAAA}}
`
	for name, test := range map[string]struct {
		kubeconfig, context string
		want                map[string]string // the tokens
		problem             string
	}{
		"of the current context": {kubeconfig, "", map[string]string{"a": "new", "b": "old-b", "c": ""}, ""},
		"of a named context":     {kubeconfig, "second", map[string]string{"a": "old-a", "b": "new", "c": ""}, ""},
		"with a certificate":     {kubeconfig, "certified", nil, "has no token"},
		"with another context":   {kubeconfig, "third", nil, "has no token"},
		"without a kubeconfig":   {"", "", nil, "does not exist"},
		"with something else":    {"{", "", nil, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := withToken([]byte(test.kubeconfig), test.context, "new")
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("error is %v, want one with %q", err, test.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			config, err := clientcmd.Load(raw)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for user, info := range config.AuthInfos {
				got[user] = info.Token
			}
			if diff := cmp.Diff(test.want, got); diff != "" || config.Clusters["c2"].TLSServerName != "kubernetes" {
				t.Errorf("tokens (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServerHint(t *testing.T) {
	cases := map[string]struct{ server, context, want string }{
		"an address that pods can reach": {"https://10.0.0.1:6443", "c2", ""},
		"a loopback address":             {"https://127.0.0.1:40123", "c2", "--server"},
		"localhost":                      {"https://localhost:6443", "c2", "--server"},
		"a loopback address of IPv6":     {"https://[::1]:6443", "c2", "--server"},
		"the unspecified address":        {"https://0.0.0.0:6443", "c2", "--server"},
		"a cluster of kind": {
			"https://127.0.0.1:40123", "kind-c2", "--server https://c2-control-plane:6443",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := serverHint(c.server, c.context)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("hint is %q, want one with %q", got, c.want)
			}
		})
	}
}
