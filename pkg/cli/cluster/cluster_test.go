package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoContexts = `apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: c1, context: {cluster: a, user: u, namespace: team-a}}
- {name: c2, context: {cluster: a, user: u}}
`

func kubeconfig(t *testing.T, content string) *Kubeconfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Kubeconfig{path: path}
}

func TestOpenContext(t *testing.T) {
	cases := map[string]struct {
		kubeconfig, context string
		want                string // part of the error; empty if there is none
	}{
		"a context by name":             {twoContexts, "c2", ""},
		"the current context":           {twoContexts + "current-context: c1\n", "", ""},
		"a mistyped context":            {twoContexts, "c3", `no context "c3" for --source-context; it has: c1, c2`},
		"no current context":            {twoContexts, "", "choose one with --source-context: c1, c2"},
		"an empty kubeconfig":           {"", "c1", "has no contexts"},
		"a kubeconfig that is not YAML": {"{", "c1", "reading the kubeconfig"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := kubeconfig(t, c.kubeconfig).Open(c.context, "source-context")
			if c.want == "" {
				if err != nil || got.Config.Host != "https://127.0.0.1:1" {
					t.Fatalf("cluster %+v, error %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestNamespaceOfTheContext(t *testing.T) {
	for context, want := range map[string]string{"c1": "team-a", "c2": "default"} {
		c, err := kubeconfig(t, twoContexts).Open(context, "context")
		if err != nil {
			t.Fatal(err)
		}
		if c.Namespace != want {
			t.Errorf("context %s has namespace %q, want %q", context, c.Namespace, want)
		}
	}
}

func TestCheckInstalledNamesTheClusterThatDoesNotAnswer(t *testing.T) {
	c, err := kubeconfig(t, twoContexts).Open("c2", "context")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckInstalled(t.Context()); err == nil || !strings.Contains(err.Error(), `"c2"`) {
		t.Errorf("error is %v, want one that names the context", err)
	}
}

func TestNameFromContext(t *testing.T) {
	const long = "a-very-long-name-of-a-cluster"
	for context, want := range map[string]string{
		"c1":                          "c1",
		"kind-c1":                     "kind-c1",
		"kubernetes-admin@Kubernetes": "kubernetes-admin-kubernetes",
		"arn:aws:eks:eu-west-3:123456789012:cluster/" + long: "eu-west-3-123456789012-cluster-" + long,
	} {
		got := NameFrom(context)
		if !strings.HasSuffix(got, want) || len(got) > 63 || strings.Trim(got, "-") != got {
			t.Errorf("NameFrom(%q) = %q, want one that ends in %q", context, got, want)
		}
	}
}
