package start

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// Helm leaves custom resource definitions as they are, and the manager could not write what they lack.
func TestTheChartRefusesDefinitionsOfAnEarlierVersion(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	env.Must(t, os.WriteFile(kubeconfig, env.Kubeconfig(t, env.Context{Name: "c1", Login: cluster.Config}), 0o600))
	install := func() error {
		_, err := env.Template(t, env.Release, "--dry-run=server", "--kubeconfig", kubeconfig)
		return err
	}
	env.Must(t, install())

	scheme := runtime.NewScheme()
	env.Must(t, apiextensionsv1.AddToScheme(scheme))
	definitions, err := client.New(cluster.Config, client.Options{Scheme: scheme})
	env.Must(t, err)
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "clustertargets.multicluster.admiralty.io"},
	}
	env.Must(t, definitions.Get(t.Context(), client.ObjectKeyFromObject(definition), definition))
	present := definition.DeepCopy()
	properties := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	delete(properties["status"].Properties, "fences")
	delete(properties["status"].Properties["conditions"].Items.Schema.Properties, "observedGeneration")
	env.Must(t, definitions.Update(t.Context(), definition))
	t.Cleanup(func() {
		present.ResourceVersion = definition.ResourceVersion
		env.Must(t, definitions.Update(context.WithoutCancel(t.Context()), present))
	})

	const want = "clustertargets.multicluster.admiralty.io is of an earlier version, and lacks " +
		"status.conditions[].observedGeneration, status.fences. "
	if err := install(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got the error %v, want %q", err, want)
	}
}
