package kubeconfig_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/kubeconfig"
)

const good = `
apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: c, user: u}}
- {name: b, context: {cluster: d, user: u}}
clusters:
- {name: c, cluster: {server: "https://c.example:6443"}}
- name: d
  cluster:
    server: "https://d.example:6443"
    insecure-skip-tls-verify: true
    proxy-url: "http://proxy.example:3128"
users:
- {name: u, user: {token: secret-token}}
`

func TestParseChoosesTheContext(t *testing.T) {
	for name, test := range map[string]struct {
		context, want string
	}{
		"the current context is used by default": {want: "https://c.example:6443"},
		"a context can be chosen":                {context: "b", want: "https://d.example:6443"},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := kubeconfig.Parse(
				[]byte(good), test.context, kubeconfig.Rules{AllowProxy: true, AllowInsecure: true},
			)
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != test.want || config.BearerToken != "secret-token" {
				t.Errorf("host %q, token %q", config.Host, config.BearerToken)
			}
			if (config.Proxy != nil) != (test.context == "b") || config.Insecure != (test.context == "b") {
				t.Error("the proxy of context b is lost, or another context has it")
			}
		})
	}
}

func TestParseRefusesKubeconfigs(t *testing.T) {
	for name, test := range map[string]struct {
		old, new, context, want string
	}{
		"a text that is no kubeconfig, without quoting it": {
			old: good, new: "secret-token", want: "it is not a kubeconfig",
		},
		"an empty kubeconfig": {old: good, want: "no current-context"},
		"broken base64, without quoting it": {
			old: "token: secret-token", new: "client-key-data: secret-token", want: "not a kubeconfig",
		},
		"a key that is not PEM": {
			old: "token: secret-token",
			new: "client-key-data: c2VjcmV0LXRva2Vu, client-certificate-data: c2VjcmV0LXRva2Vu", want: "must be PEM",
		},
		"an unknown context, and lists the known ones": {context: "x", want: "no context \"x\", but a, b"},
		"a context with an unknown cluster": {
			old: "name: c, cluster", new: "name: x, cluster", want: "cluster \"c\", which it does not define",
		},
		"a context with an unknown user": {
			old: "name: u, user", new: "name: x, user", want: "user \"u\", which it does not define",
		},
		"a server without encryption": {
			old: "https://c.", new: "http://c.", want: "begins with https://",
		},
		"a password in the address": {
			old: "https://c.", new: "https://u:secret-token@c.", want: "address of its server",
		},
		"a cluster without a server": {old: "https://c.example:6443", want: "begins with https://"},
		"a user that runs a program": {
			old:  "token: secret-token",
			new:  "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}",
			want: "runs a program",
		},
		"a user with an authentication provider": {
			old: "token: secret-token", new: "auth-provider: {name: oidc}", want: "auth-provider",
		},
		"a file with a token": {
			old: "token: secret-token", new: "tokenFile: /etc/token", want: "tokenFile",
		},
		"a file with a certificate": {
			old: "token: secret-token", new: "client-certificate: /etc/crt", want: "client-certificate-data",
		},
		"a file with a key": {
			old: "token: secret-token", new: "client-key: /etc/key", want: "client-key-data",
		},
		"a file with certificate authorities": {
			old: `"https://c.example:6443"`, new: `"https://c.example:6443", certificate-authority: /etc/ca`,
			want: "certificate-authority-data",
		},
		"no current context, if no context is chosen": {
			old: "current-context: a", want: "spec.kubeconfigSecret.context",
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := good
			if test.old != "" {
				data = strings.Replace(good, test.old, test.new, 1)
			}
			_, err := kubeconfig.Parse([]byte(data), test.context, kubeconfig.Rules{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want something about %q", err, test.want)
			}
			if strings.Contains(err.Error(), "secret-token") || strings.Contains(err.Error(), "c2VjcmV0") {
				t.Errorf("the error repeats a secret: %v", err)
			}
		})
	}
}

func TestRulesForbidFields(t *testing.T) {
	const insecure, proxy = "insecure-skip-tls-verify", "proxy-url"
	for name, test := range map[string]struct {
		context   string
		rules     kubeconfig.Rules
		forbidden []string
	}{
		"nothing is allowed":                {"b", kubeconfig.Rules{}, []string{insecure, proxy}},
		"a proxy is allowed":                {"b", kubeconfig.Rules{AllowProxy: true}, []string{insecure}},
		"an unverified server is allowed":   {"b", kubeconfig.Rules{AllowInsecure: true}, []string{proxy}},
		"both are allowed":                  {"b", kubeconfig.Rules{AllowProxy: true, AllowInsecure: true}, nil},
		"another context has what is wrong": {"a", kubeconfig.Rules{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kubeconfig.Parse([]byte(good), test.context, test.rules)
			refused := (*kubeconfig.NotAllowedError)(nil)
			if errors.As(err, &refused) != (len(test.forbidden) > 0) || (err == nil) != (len(test.forbidden) == 0) {
				t.Fatalf("got %v", err)
			}
			for _, field := range []string{insecure, proxy} {
				named := err != nil && strings.Contains(err.Error(), field)
				if named != slices.Contains(test.forbidden, field) {
					t.Errorf("%s is named: %v; %v", field, named, err)
				}
			}
		})
	}
}

func TestAliasesAreRefused(t *testing.T) {
	const aliased = "extensions: &x [{name: a}]\npreferences: {extensions: *x}\n"
	_, err := kubeconfig.Parse([]byte(aliased+good), "b", kubeconfig.Rules{})
	if err == nil || !strings.Contains(err.Error(), "aliases") {
		t.Errorf("error %v", err)
	}
}

// FuzzParse checks that the strictest rules let nothing pass, whatever a tenant writes.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good), "b")
	f.Add([]byte(strings.Replace(good, "token: secret-token", "exec: {command: sh}", 1)), "")
	f.Add([]byte(strings.Replace(good, "https://c.", "https://u:p@c.", 1)), "a")
	f.Add([]byte(`{"clusters":[{"name":"c","cluster":{"server":"https://x","proxy-url":"%zz"}}]}`), "")
	f.Add([]byte("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"), "")
	f.Fuzz(func(t *testing.T, data []byte, context string) {
		config, err := kubeconfig.Parse(data, context, kubeconfig.Rules{})
		if err != nil {
			return
		}
		if config.Insecure || config.Proxy != nil || config.ExecProvider != nil || config.AuthProvider != nil ||
			config.BearerTokenFile != "" || config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" {
			t.Errorf("it passes: %#v", config)
		}
		if server, err := url.Parse(config.Host); err != nil || server.Scheme != "https" || server.User != nil {
			t.Errorf("it leads to %q: %v", config.Host, err)
		}
	})
}
