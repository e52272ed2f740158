package idle

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// daemonSet returns a DaemonSet that tolerates everything.
func daemonSet(namespace, name string, changes ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	d := &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}}
	d.ObjectMeta = env.Meta(namespace, name)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec = corev1.PodSpec{
		Containers:  []corev1.Container{{Name: "agent", Image: "agent"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}
	for _, change := range changes {
		change(d)
	}
	return d
}

func tolerating(tolerations ...corev1.Toleration) func(*appsv1.DaemonSet) {
	return func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Tolerations = tolerations }
}

func with(affinity *corev1.Affinity) func(*appsv1.DaemonSet) {
	return func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Affinity = affinity }
}

func required(key string, operator corev1.NodeSelectorOperator, values ...string) *corev1.NodeAffinity {
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: operator, Values: values},
		}}},
	}}
}

func keptOff() *corev1.NodeAffinity {
	return required(v1alpha1.LabelNodeProvider, corev1.NodeSelectorOpNotIn, v1alpha1.LabelNodeProviderValue)
}

// waitForPolicy waits until the API server applies the policy.
func waitForPolicy(t *testing.T) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error {
		d := daemonSet(metav1.NamespaceDefault, "probe")
		if err := source.Client.Create(ctx, d, client.DryRunAll); err != nil {
			return err
		}
		if d.Spec.Template.Spec.Affinity == nil {
			return fmt.Errorf("the policy is not applied yet")
		}
		return nil
	})
}

func TestNewDaemonSetsKeepOffVirtualNodes(t *testing.T) {
	namespace := env.Namespace(t, nil, source)
	waitForPolicy(t)
	zones := required("zone", corev1.NodeSelectorOpIn, "a")
	preference := zones.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
	preferred := &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 1, Preference: preference,
		}},
	}
	both := &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: preferred.PreferredDuringSchedulingIgnoredDuringExecution,
		RequiredDuringSchedulingIgnoredDuringExecution:  keptOff().RequiredDuringSchedulingIgnoredDuringExecution,
	}
	apart := &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: "zone",
	}}}
	off := &corev1.Affinity{NodeAffinity: keptOff()}
	for name, tc := range map[string]struct {
		change func(*appsv1.DaemonSet)
		want   *corev1.Affinity
	}{
		"everything":       {func(*appsv1.DaemonSet) {}, off},
		"every-noschedule": {tolerating(corev1.Toleration{Operator: "Exists", Effect: "NoSchedule"}), off},
		"our-taint": {tolerating(corev1.Toleration{
			Key: v1alpha1.LabelNodeProvider, Value: v1alpha1.LabelNodeProviderValue, Effect: "NoSchedule",
		}), off},
		"empty-affinity": {with(&corev1.Affinity{}), off},
		"pod-anti-affinity": {
			with(&corev1.Affinity{PodAntiAffinity: apart}),
			&corev1.Affinity{NodeAffinity: keptOff(), PodAntiAffinity: apart},
		},
		"preferences":    {with(&corev1.Affinity{NodeAffinity: preferred}), &corev1.Affinity{NodeAffinity: both}},
		"own-terms":      {with(&corev1.Affinity{NodeAffinity: zones}), &corev1.Affinity{NodeAffinity: zones}},
		"no-tolerations": {tolerating(), nil},
		"another-effect": {tolerating(corev1.Toleration{Operator: "Exists", Effect: "NoExecute"}), nil},
		"another-taint":  {tolerating(corev1.Toleration{Key: "gpu", Operator: "Exists"}), nil},
		"turned-off": {func(d *appsv1.DaemonSet) {
			d.Annotations = map[string]string{v1alpha1.AnnotationKeepOff: "false"}
		}, nil},
		"for-virtual-nodes": {func(d *appsv1.DaemonSet) {
			provider := map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}
			d.Spec.Template.Spec.NodeSelector = provider
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := daemonSet(namespace, name, tc.change)
			env.Create(t, source, d)
			if diff := cmp.Diff(tc.want, d.Spec.Template.Spec.Affinity); diff != "" {
				t.Errorf("unexpected affinity (-want +got):\n%s", diff)
			}
		})
	}
}

// The ways in which users write a DaemonSet again. Each returns the error of the API server.
var ways = map[string]func(ctx context.Context, d *appsv1.DaemonSet) error{
	"kubectl-apply": func(ctx context.Context, d *appsv1.DaemonSet) error { // and helm upgrade
		now := &appsv1.DaemonSet{}
		if err := source.Client.Get(ctx, client.ObjectKeyFromObject(d), now); err != nil {
			return err
		}
		manifest, err := json.Marshal(d)
		if err != nil {
			return err
		}
		current, err := json.Marshal(now)
		if err != nil {
			return err
		}
		schema, err := strategicpatch.NewPatchMetaFromStruct(d)
		if err != nil {
			return err
		}
		patch, err := strategicpatch.CreateThreeWayMergePatch(manifest, manifest, current, schema, true)
		if err != nil {
			return err
		}
		return source.Client.Patch(ctx, now, client.RawPatch(types.StrategicMergePatchType, patch))
	},
	"server-side-apply": func(ctx context.Context, d *appsv1.DaemonSet) error {
		//nolint:staticcheck // A whole object, as users have it.
		return source.Client.Patch(ctx, d.DeepCopy(), client.Apply, client.FieldOwner("user"), client.ForceOwnership)
	},
	"kubectl-replace": func(ctx context.Context, d *appsv1.DaemonSet) error {
		return source.Client.Update(ctx, d.DeepCopy())
	},
}

func TestWritingADaemonSetAgainReplacesNoPods(t *testing.T) {
	namespace := env.Namespace(t, nil, source)
	waitForPolicy(t)
	for way, write := range ways {
		for name, change := range map[string]func(*appsv1.DaemonSet){
			"plain":     func(*appsv1.DaemonSet) {},
			"anti":      with(&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}),
			"own-terms": with(&corev1.Affinity{NodeAffinity: required("zone", corev1.NodeSelectorOpIn, "a")}),
		} {
			t.Run(way+"-"+name, func(t *testing.T) {
				d := daemonSet(namespace, way+"-"+name, change)
				created := d.DeepCopy()
				env.Create(t, source, created)
				for range 2 {
					env.Must(t, write(t.Context(), d))
				}
				expectTemplateOf(t, created)
			})
		}
	}
}

func TestDaemonSetsThatExistAreNotChanged(t *testing.T) {
	namespace := env.Namespace(t, nil, source)
	waitForPolicy(t)
	earlier := daemonSet(namespace, "earlier", func(d *appsv1.DaemonSet) {
		d.Annotations = map[string]string{v1alpha1.AnnotationKeepOff: "false"} // as if it were from before the policy
	})
	env.Create(t, source, earlier)
	env.Change(t, source, earlier, func(d *appsv1.DaemonSet) { d.Annotations = map[string]string{"some": "change"} })
	for _, write := range ways {
		env.Must(t, write(t.Context(), daemonSet(namespace, "earlier")))
	}
	expectTemplateOf(t, earlier)
}

// expectTemplateOf checks that the template is still that of the given DaemonSet.
func expectTemplateOf(t *testing.T, want *appsv1.DaemonSet) {
	t.Helper()
	is := want.DeepCopy()
	env.Get(t, source, is)
	if diff := cmp.Diff(want.Spec.Template, is.Spec.Template); diff != "" || is.Generation != want.Generation {
		t.Errorf("the generation is %d, want %d; the template has changed (-was +is):\n%s",
			is.Generation, want.Generation, diff)
	}
}
