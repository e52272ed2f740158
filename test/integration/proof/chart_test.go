package proof

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestTheChartMakesTheSecretAndGivesRightsToItAlone(t *testing.T) {
	var made []corev1.Secret
	var rules []rbacv1.PolicyRule
	for _, object := range render(t, "somewhere") {
		switch object.GetKind() {
		case "Secret":
			made = append(made, corev1.Secret{})
			env.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &made[len(made)-1]))
		case "Role":
			role := rbacv1.Role{}
			env.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role))
			rules = append(rules, role.Rules...)
		}
	}
	if len(made) != 1 || made[0].Name != name || made[0].Data != nil || made[0].StringData != nil {
		t.Fatalf("the chart makes the Secrets %+v, want one, %q, without data: an upgrade would replace it", made, name)
	}
	if keep, ok := made[0].Annotations["helm.sh/resource-policy"]; ok {
		t.Errorf("helm keeps the Secret (%s): a rollback leaves a key older than PodChaperons without proof", keep)
	}
	rules = slices.DeleteFunc(rules, func(r rbacv1.PolicyRule) bool { return !slices.Contains(r.ResourceNames, name) })
	want := []rbacv1.PolicyRule{rule("get", "list", "watch", "patch")}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Errorf("rights to the Secret (-want +got):\n%s", diff)
	}
}

func TestTheChartTellsTheManagerTheSecret(t *testing.T) {
	for release, want := range map[string]string{
		env.Release: "\nproof:\n  secretName: " + name + "\n", "other": "\nproof:\n  secretName: other-" + name + "\n",
	} {
		t.Run(release, func(t *testing.T) {
			found := false
			for _, object := range env.Render(t, release, "--show-only", "templates/configmap.yaml") {
				config := corev1.ConfigMap{}
				env.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &config))
				found = found || strings.Contains(config.Data["config.yaml"], want)
			}
			if !found {
				t.Errorf("the configuration has no line %q", want)
			}
		})
	}
}
