package rights

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// Places of rights.
const (
	everywhere = "cluster"
	release    = "release"
	leases     = "leases" // the namespace of Leases
)

var cluster *env.Cluster

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) { cluster = env.Start(t, "c1")[0] })
}

// right is one verb on one resource in one place.
type right struct{ where, resource, verb string }

// rights is a set.
type rights map[right]bool

func (r rights) String() string {
	var lines []string
	for one := range maps.Keys(r) {
		lines = append(lines, fmt.Sprintf("%s: %s %s", one.where, one.verb, one.resource))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// has returns whether a verb on a resource is among the rights, in any place and with any name.
func (r rights) has(verb, resource string) bool {
	for one := range r {
		unnamed, _, _ := strings.Cut(one.resource, " named ")
		if one.verb == verb && unnamed == resource {
			return true
		}
	}
	return false
}

// add adds the rights of rules.
func (r rights) add(where string, rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						r[right{where, described(resource, group, name), verb}] = true
					}
				}
			}
		}
	}
}

// described describes a resource as the documentation does.
func described(resource, group, name string) string {
	if group != "" {
		resource += "." + group
	}
	if name != "" {
		resource += " named " + name
	}
	return resource
}

// given returns the rights that the rendered chart gives the manager.
func given(t *testing.T, arguments ...string) rights {
	t.Helper()
	return givenTo(t, env.ManagerAccount, arguments...)
}

// givenTo returns the rights that the rendered chart gives a service account of the release.
func givenTo(t *testing.T, account string, arguments ...string) rights {
	t.Helper()
	roles, parts := map[string][]rbacv1.PolicyRule{}, []rbacv1.PolicyRule{}
	objects := env.Render(t, env.Release, arguments...)
	for _, object := range objects {
		if kind := object.GetKind(); kind == "Role" || kind == "ClusterRole" {
			role := &rbacv1.ClusterRole{}
			env.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role))
			roles[kind+"/"+object.GetNamespace()+"/"+object.GetName()] = role.Rules
			if object.GetLabels()["admiralty.io/aggregate-to-controller-manager"] == "true" {
				parts = append(parts, role.Rules...)
			}
		}
	}
	roles["ClusterRole//"+env.ManagerAccount] = parts
	// Kubernetes has this Role.
	roles["Role/kube-system/extension-apiserver-authentication-reader"] = []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"},
		ResourceNames: []string{"extension-apiserver-authentication"},
	}}
	all := rights{}
	for _, object := range objects {
		if strings.HasSuffix(object.GetKind(), "RoleBinding") {
			all.bound(t, account, object, roles)
		}
	}
	return all
}

// bound adds the rights of a binding of the account. Roles are found by kind, namespace and name.
func (r rights) bound(
	t *testing.T, account string, object *unstructured.Unstructured, roles map[string][]rbacv1.PolicyRule,
) {
	t.Helper()
	binding := &rbacv1.RoleBinding{}
	env.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding))
	ours := func(s rbacv1.Subject) bool { return s.Name == account }
	if !slices.ContainsFunc(binding.Subjects, ours) {
		return
	}
	where, namespace := binding.Namespace, ""
	if binding.RoleRef.Kind == "Role" {
		namespace = binding.Namespace
	}
	switch where {
	case "":
		where = everywhere
	case env.ReleaseNamespace:
		where = release
	case env.LeasesNamespace:
		where = leases
	}
	rules, known := roles[binding.RoleRef.Kind+"/"+namespace+"/"+binding.RoleRef.Name]
	if !known {
		t.Fatalf("%s %s binds a role that is not known here: %+v", object.GetKind(), object.GetName(), binding.RoleRef)
	}
	r.add(where, rules)
}

// documented returns the rights in the table of docs/security.md whose role is one of these.
func documented(t *testing.T, roles ...string) rights {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "security.md"))
	env.Must(t, err)
	_, table, found := strings.Cut(string(data), "| role | where | resources | verbs | reason |\n")
	if !found {
		t.Fatal("docs/security.md has no table of the manager's rights")
	}
	all := rights{}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.ReplaceAll(line, "`", ""), "|\n "), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 5 || cells[4] == "" {
			t.Errorf("a right has no reason: %s", line)
		}
		if !slices.Contains(roles, cells[0]) {
			continue
		}
		for resource := range strings.SplitSeq(cells[2], ", ") {
			for verb := range strings.SplitSeq(cells[3], ", ") {
				all[right{cells[1], resource, verb}] = true
			}
		}
	}
	return all
}
