package connect

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// weigh changes the weight of a target, and waits until the engaged one has it.
func weigh(t *testing.T, key types.NamespacedName, weight int32) *engage.Target {
	t.Helper()
	object := targetkind.New(key)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"weight":%d}}`, weight))
	if err := c1.Client.Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
	var engaged *engage.Target
	apiserver.Eventually(t, func(context.Context) error {
		var ok bool
		if engaged, ok = registry.ByKey(key); !ok {
			return fmt.Errorf("%s is not engaged", key)
		}
		if got := engaged.Policy().Weight; got == nil || *got != weight {
			return fmt.Errorf("its weight is %v, want %d", got, weight)
		}
		return nil
	})
	return engaged
}

func TestAPolicyIsFollowedWithoutConnectingAnew(t *testing.T) {
	clusterKey, secret := connectedTarget(t, c2Alice)
	before, _ := registry.ByKey(clusterKey)
	if now := weigh(t, clusterKey, 200); now != before {
		t.Error("the ClusterTarget was engaged anew for its weight")
	}

	secret.Data["config"] = kubeconfigOf(t, c2Bob)
	if err := c1.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, func(context.Context) error {
		now, ok := registry.ByKey(clusterKey)
		if !ok || now == before {
			return fmt.Errorf("%s is not engaged anew", clusterKey)
		}
		if got := now.Policy().Weight; got == nil || *got != 200 {
			t.Errorf("after the rotation of its credentials, the weight is %v", got)
		}
		return nil
	})

	key := types.NamespacedName{Namespace: secret.Namespace, Name: "t"}
	create(t, c1.Client, &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       v1alpha1.TargetSpec{KubeconfigSecret: &v1alpha1.KubeconfigSecret{Name: secret.Name}, PlacementPolicy: v1alpha1.PlacementPolicy{Weight: new(int32(30))}},
	})
	expect(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNodeReady, "")
	before, _ = registry.ByKey(key)
	if got := before.Policy().Weight; got == nil || *got != 30 {
		t.Errorf("the Target's weight is %v, want 30", got)
	}
	if now := weigh(t, key, 40); now != before {
		t.Error("the Target was engaged anew for its weight")
	}
}

func TestMistakesInAPolicyAreRefusedInPlainWords(t *testing.T) {
	const duration = "must be a duration of more than 0s, as in 90s, 10m or 1h30m"
	for name, test := range map[string]struct {
		policy map[string]any
		want   string // nothing if it is accepted
	}{
		"a weight":                         {map[string]any{"weight": int64(1)}, ""},
		"durations":                        {map[string]any{"placementTimeout": "1h30m", "queueingTimeout": "500ms"}, ""},
		"a target that may grow":           {map[string]any{"scaleUp": map[string]any{}}, ""},
		"a weight of zero":                 {map[string]any{"weight": int64(0)}, "spec.weight in body should be greater than or equal to 1"},
		"a weight too large":               {map[string]any{"weight": int64(10001)}, "spec.weight in body should be less than or equal to 10000"},
		"a duration in words":              {map[string]any{"placementTimeout": "1 day"}, `spec.placementTimeout: Invalid value: "1 day": ` + duration},
		"a unit that Go does not have":     {map[string]any{"placementTimeout": "1d"}, `spec.placementTimeout: Invalid value: "1d": ` + duration},
		"a duration of nothing":            {map[string]any{"queueingTimeout": "0s"}, `spec.queueingTimeout: Invalid value: "0s": ` + duration},
		"a duration before now":            {map[string]any{"queueingTimeout": "-5s"}, `spec.queueingTimeout: Invalid value: "-5s": ` + duration},
		"no duration":                      {map[string]any{"queueingTimeout": ""}, `spec.queueingTimeout: Invalid value: "": ` + duration},
		"a duration of nothing to grow in": {scaleUp("timeout", "0m"), `spec.scaleUp.timeout: Invalid value: "0m": ` + duration},
		"a node class without resources":   {nodeClass(map[string]any{"labels": map[string]any{"a": "b"}}), "spec.scaleUp.nodeClasses[0].allocatable: Required value"},
		"a node class of no resources": {nodeClass(map[string]any{"allocatable": map[string]any{}}),
			"spec.scaleUp.nodeClasses[0].allocatable in body should have at least 1 properties"},
		"a node class of what is no quantity": {nodeClass(map[string]any{"allocatable": map[string]any{"cpu": "many"}}),
			"spec.scaleUp.nodeClasses[0].allocatable.cpu"},
		"a node class": {nodeClass(map[string]any{"allocatable": map[string]any{"cpu": int64(4), "memory": "16Gi"}}), ""},
	} {
		for _, kind := range []string{"ClusterTarget", "Target"} {
			t.Run(kind+": "+name, func(t *testing.T) {
				object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"self": true}}}
				object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
				object.SetName("never-made")
				if kind == "Target" {
					object.SetNamespace(corev1.NamespaceDefault)
				}
				for field, value := range test.policy {
					if err := unstructured.SetNestedField(object.Object, value, "spec", field); err != nil {
						t.Fatal(err)
					}
				}
				err := c1.Client.Create(t.Context(), object, client.DryRunAll)
				switch {
				case test.want == "" && err != nil:
					t.Errorf("refused: %v", err)
				case test.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want)):
					t.Errorf("the answer is %v, want one with %q", err, test.want)
				}
			})
		}
	}
}

func scaleUp(field string, value any) map[string]any {
	return map[string]any{"scaleUp": map[string]any{field: value}}
}

func nodeClass(class map[string]any) map[string]any {
	return scaleUp("nodeClasses", []any{class})
}
