package tokens

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestTheChartMakesTheSecretAndNamesItToTheManager(t *testing.T) {
	for release, name := range map[string]string{env.Release: secretName, "other": "other-" + secretName} {
		t.Run(release, func(t *testing.T) {
			var made []corev1.Secret
			named := false
			for _, object := range env.Render(t, release, "--show-only", "templates/tokens.yaml",
				"--show-only", "templates/configmap.yaml") {
				if object.GetKind() == "Secret" {
					made = append(made, corev1.Secret{})
					env.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(
						object.Object, &made[len(made)-1]))
					continue
				}
				config := corev1.ConfigMap{}
				env.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &config))
				named = named || strings.Contains(config.Data["config.yaml"], "\ntokens:\n  secretName: "+name+"\n")
			}
			if len(made) != 1 || made[0].Name != name || made[0].Data != nil || made[0].StringData != nil {
				t.Fatalf("the chart makes %+v, want %q without data: an upgrade would replace the tokens", made, name)
			}
			if diff := cmp.Diff("keep", made[0].Annotations["helm.sh/resource-policy"]); diff != "" {
				t.Errorf("a rollback deletes the tokens:\n%s", diff)
			}
			if !named {
				t.Error("the configuration does not name the Secret")
			}
		})
	}
}
