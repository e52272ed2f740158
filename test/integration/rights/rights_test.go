package rights

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// combination is a choice of roles.
type combination struct {
	arguments []string
	// rows are the roles in the table of docs/security.md whose rights the manager must have.
	rows []string
	// never are rights that the manager must not have, whatever the table says.
	never []struct{ verb, resource string }
}

// ofTargets are rights that a manager needs only as a target, and ofSources only as a source.
func ofTargets() []struct{ verb, resource string } {
	return []struct{ verb, resource string }{
		{"create", "pods"}, {"delete", "secrets"}, {"delete", "configmaps"}, {"delete", "services"},
		{"create", "serviceaccounts"}, {"bind", "clusterroles.rbac.authorization.k8s.io"},
		{"create", "rolebindings.rbac.authorization.k8s.io"}, {"create", "pods/exec"},
		{"delete", "podchaperons.multicluster.admiralty.io"},
	}
}

func ofSources() []struct{ verb, resource string } {
	return []struct{ verb, resource string }{
		{"patch", "pods/status"}, {"create", "pods/binding"}, {"create", "nodes"}, {"delete", "nodes"},
		{"patch", "nodes/status"}, {"patch", "services"}, {"create", "pods/exec"},
		{"patch", "mutatingwebhookconfigurations.admissionregistration.k8s.io"},
	}
}

func TestEachRoleHasOnlyItsVerbs(t *testing.T) {
	for name, c := range map[string]combination{
		"source and target": {nil, []string{"each", "source", "target", "both"}, nil},
		"source":            {[]string{"--set", "roles.target=false"}, []string{"each", "source"}, ofTargets()},
		"target":            {[]string{"--set", "roles.source=false"}, []string{"each", "target"}, ofSources()},
	} {
		t.Run(name, func(t *testing.T) {
			got := given(t, c.arguments...)
			want := documented(t, c.rows...)
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Errorf("rights in docs/security.md (-) and in the chart (+):\n%s", diff)
			}
			for _, n := range c.never {
				if got.has(n.verb, n.resource) {
					t.Errorf("the manager may %s %s", n.verb, n.resource)
				}
			}
		})
	}
}

func TestTheUninstallJobHasOnlyItsVerbs(t *testing.T) {
	for name, c := range map[string]struct {
		arguments []string
		rows      []string
	}{
		"source and target": {nil, []string{"uninstall", "uninstall source", "uninstall target"}},
		"source":            {[]string{"--set", "roles.target=false"}, []string{"uninstall", "uninstall source"}},
		"target":            {[]string{"--set", "roles.source=false"}, []string{"uninstall", "uninstall target"}},
		"a target that leaves pods": {
			[]string{"--set", "roles.source=false,uninstall.pods=leave"}, []string{"uninstall"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := givenTo(t, env.Release+"-uninstall", c.arguments...)
			if diff := cmp.Diff(documented(t, c.rows...).String(), got.String()); diff != "" {
				t.Errorf("rights in docs/security.md (-) and in the chart (+):\n%s", diff)
			}
		})
	}
}

func TestAPartThatIsLeftOutHasNoRights(t *testing.T) {
	const (
		reviews  = "tokenreviews.authentication.k8s.io"
		webhooks = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
		checks   = "validatingwebhookconfigurations.admissionregistration.k8s.io"
	)
	for name, test := range map[string]struct {
		set            string
		verb, resource string
	}{
		"garbage collection":  {"rbac.parts.garbageCollection=false", "delete", "secrets"},
		"the kubelet API":     {"rbac.parts.kubeletAPI=false,metrics.secure=false", "create", reviews},
		"sources":             {"sourceController.enabled=false", "bind", "clusterroles.rbac.authorization.k8s.io"},
		"the cluster itself":  {"rbac.selfTarget=false", "create", "pods/exec"},
		"Secrets everywhere":  {"rbac.secretNamespaces={team-a}", "get", "secrets"},
		"endpoints":           {"sources.endpoints.check=false", "patch", checks},
		"cert-manager's work": {"certManager.enabled=true", "patch", webhooks},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := given(t), given(t, "--set", test.set)
			lost := rights{}
			for one := range before {
				if !after[one] {
					lost[one] = true
				}
			}
			if !lost.has(test.verb, test.resource) {
				t.Errorf("with %s the manager may still %s %s", test.set, test.verb, test.resource)
			}
		})
	}
}
