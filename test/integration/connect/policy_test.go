package connect

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// weigh changes the weight of a target, and waits until the engaged one has it.
func weigh(t *testing.T, key types.NamespacedName, weight int32) *engage.Target {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"weight":%d}}`, weight))
	env.Must(t, c1.Client.Patch(t.Context(), clusterTarget(key), patch))
	env.Eventually(t, func(context.Context) error {
		if got := engagedTarget(t, key).Policy().Weight; got == nil || *got != weight {
			return fmt.Errorf("the weight is %v, want %d", got, weight)
		}
		return nil
	})
	return engagedTarget(t, key)
}

func TestAPolicyIsFollowedWithoutConnectingAnew(t *testing.T) {
	key, secret := connect(t, c2Alice)
	before := engagedTarget(t, key)
	if now := weigh(t, key, 200); now != before {
		t.Error("the ClusterTarget was engaged anew for its weight")
	}

	setLogin(t, secret, c2Bob)
	env.Eventually(t, func(context.Context) error {
		if engagedTarget(t, key) == before {
			return fmt.Errorf("%s is not engaged anew", key)
		}
		return nil
	})
	env.ExpectEqual(t, "weight after a rotation of credentials", new(int32(200)), engagedTarget(t, key).Policy().Weight)

	key = connectTarget(t, secret.Namespace, v1alpha1.PlacementPolicy{Weight: new(int32(30))})
	before = engagedTarget(t, key)
	env.ExpectEqual(t, "weight of the Target", new(int32(30)), before.Policy().Weight)
	if now := weigh(t, key, 40); now != before {
		t.Error("the Target was engaged anew for its weight")
	}
}

func TestAPolicyIsValidated(t *testing.T) {
	const duration = "must be a duration of more than 0s, as in 90s, 10m or 1h30m"
	for name, test := range map[string]struct {
		policy string
		want   string // nothing if the policy is accepted
	}{
		"a weight is accepted":               {"weight: 1", ""},
		"durations are accepted":             {"{placementTimeout: 1h30m, queueingTimeout: 500ms}", ""},
		"a target that may grow is accepted": {"scaleUp: {}", ""},
		"kept labels are accepted":           {"keepLabels: false", ""},
		"kept labels of some are refused": {
			"keepLabels: some", `spec.keepLabels in body must be of type boolean: "string"`,
		},
		"a weight of zero is refused": {
			"weight: 0", "spec.weight in body should be greater than or equal to 1",
		},
		"a weight that is too high is refused": {
			"weight: 10001", "spec.weight in body should be less than or equal to 10000",
		},
		"a duration in words is refused": {
			"placementTimeout: 1 day", `spec.placementTimeout: Invalid value: "1 day": ` + duration,
		},
		"a unit that Go does not have is refused": {
			"placementTimeout: 1d", `spec.placementTimeout: Invalid value: "1d": ` + duration,
		},
		"a duration of zero is refused": {
			"queueingTimeout: 0s", `spec.queueingTimeout: Invalid value: "0s": ` + duration,
		},
		"a negative duration is refused": {
			"queueingTimeout: -5s", `spec.queueingTimeout: Invalid value: "-5s": ` + duration,
		},
		"an empty duration is refused": {
			`queueingTimeout: ""`, `spec.queueingTimeout: Invalid value: "": ` + duration,
		},
		"a duration of zero for growing is refused": {
			"scaleUp: {timeout: 0m}", `spec.scaleUp.timeout: Invalid value: "0m": ` + duration,
		},
		"a node class without resources is refused": {
			"scaleUp: {nodeClasses: [{labels: {a: b}}]}",
			"spec.scaleUp.nodeClasses[0].allocatable: Required value",
		},
		"a node class with an empty list of resources is refused": {
			"scaleUp: {nodeClasses: [{allocatable: {}}]}",
			"spec.scaleUp.nodeClasses[0].allocatable in body should have at least 1 properties",
		},
		"a node class with a word for an amount is refused": {
			"scaleUp: {nodeClasses: [{allocatable: {cpu: many}}]}", "spec.scaleUp.nodeClasses[0].allocatable.cpu",
		},
		"a node class is accepted": {"scaleUp: {nodeClasses: [{allocatable: {cpu: 4, memory: 16Gi}}]}", ""},
	} {
		for _, kind := range []string{"ClusterTarget", "Target"} {
			t.Run(kind+": "+name, func(t *testing.T) {
				spec := map[string]any{"self": true}
				env.Must(t, yaml.Unmarshal([]byte(test.policy), &spec))
				object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
				object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
				object.SetName("never-made")
				if kind == "Target" {
					object.SetNamespace(corev1.NamespaceDefault)
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
