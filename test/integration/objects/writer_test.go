package objects

import (
	"context"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// content returns a ConfigMap to be written.
func content(namespace, name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata":   map[string]any{"namespace": namespace, "name": name},
		"data":       map[string]any{"a": value},
		"binaryData": nil, "immutable": nil,
	}}
}

// value returns the value of a ConfigMap in the target.
func value(t *testing.T, namespace, name string) string {
	t.Helper()
	return env.Get(t, target, configMap(namespace, name, "")).Data["a"]
}

// createTheirs creates a ConfigMap of the target's users. The function returned checks that it is as it was.
func createTheirs(t *testing.T, namespace string) (expectUntouched func(*testing.T)) {
	t.Helper()
	theirs := configMap(namespace, "theirs", "theirs")
	env.Create(t, target, theirs)
	return func(t *testing.T) {
		t.Helper()
		env.ExpectEqual(t, "their ConfigMap", theirs, env.Get(t, target, configMap(namespace, "theirs", "")))
	}
}

func TestWriterWritesCopiesAndNothingElse(t *testing.T) {
	for name, login := range map[string]*rest.Config{
		"as a source, to whom the policy applies":                    identity,
		"as an administrator, who may run pods, and is not a source": target.Config,
	} {
		t.Run(name, func(t *testing.T) {
			namespace, _ := engaged(t)
			w := newWriter(t, login)
			write := func(value string, exists bool) {
				t.Helper()
				env.Must(t, w.Write(t.Context(), content(namespace, "settings", value), exists))
				env.ExpectEqual(t, "value", value, env.Get(t, target, configMap(namespace, "settings", "")).Data["a"])
			}
			write("1", true)  // The guess that it exists is wrong.
			write("2", false) // The guess that it does not exist is wrong.

			immutable := content(namespace, "settings", "3")
			immutable.Object["immutable"] = true
			env.Must(t, w.Write(t.Context(), immutable, true))
			before := env.Get(t, target, configMap(namespace, "settings", ""))
			env.ExpectEqual(t, "immutable", ptr.To(true), before.Immutable)
			env.Must(t, w.Write(t.Context(), immutable, true))
			same := env.Get(t, target, configMap(namespace, "settings", ""))
			env.ExpectEqual(t, "version after the same write", before.ResourceVersion, same.ResourceVersion)
			write("4", true)
			after := env.Get(t, target, configMap(namespace, "settings", ""))
			if after.UID == before.UID || after.Immutable != nil {
				t.Errorf("the immutable copy was not replaced: %v", after)
			}

			expectUntouched := createTheirs(t, namespace)
			for _, exists := range []bool{true, false} {
				expectNotOurs(t, w.Write(t.Context(), content(namespace, "theirs", "ours"), exists))
			}
			expectUntouched(t)
		})
	}
}

func TestWriterWritesNothingThatExistsWhereNobodyGuardsObjectsOfOthers(t *testing.T) {
	const unguarded = "unguarded"
	namespace, _ := engaged(t)
	target.Grant(t, unguarded, namespace, env.Rule("", []string{"configmaps"}, "create", "update", "delete"))
	expectUntouched := createTheirs(t, namespace)
	w := newWriter(t, target.Impersonate(unguarded))
	env.Must(t, w.Write(t.Context(), content(namespace, "new", "ours"), false))
	expectUnguarded(t, w.Write(t.Context(), content(namespace, "theirs", "ours"), false))
	expectUntouched(t)
}

func TestWriterKeepsACopyWhoseSuccessorTheTargetRefuses(t *testing.T) {
	namespace, _ := engaged(t)
	w := newWriter(t, identity)
	env.Must(t, w.Write(t.Context(), content(namespace, "settings", "good"), false))
	env.Must(t, w.Write(t.Context(), content(namespace, "settings", "good"), true))
	forbidValue(t, namespace, "bad")
	if err := w.Write(t.Context(), content(namespace, "settings", "bad"), true); !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want the target's refusal", err)
	}
	env.ExpectEqual(t, "value", "good", value(t, namespace, "settings"))
}

// forbidValue has the target refuse ConfigMaps of the namespace with this value, in the words in which it refuses to
// change what is immutable.
func forbidValue(t *testing.T, namespace, value string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "forbid-in-" + namespace}
	rule := admissionv1.NamedRuleWithOperations{}
	rule.Operations = []admissionv1.OperationType{admissionv1.OperationAll}
	rule.APIGroups, rule.APIVersions, rule.Resources = []string{""}, []string{"v1"}, []string{"configmaps"}
	rules := []admissionv1.NamedRuleWithOperations{rule}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: rules}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: fmt.Sprintf(
		"request.namespace != %q || object == null || object.data['a'] != %q", namespace, value)}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta}
	binding.Spec.PolicyName = meta.Name
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	env.Create(t, target, policy, binding)
	env.Eventually(t, func(ctx context.Context) error {
		err := target.Client.Create(ctx, configMap(namespace, "probe", value), client.DryRunAll)
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policy does not apply: %w", err)
		}
		return nil
	})
}

func TestWriterPatchesObjectsThatSourcesMayRead(t *testing.T) {
	namespace, _ := engaged(t)
	w := newWriter(t, identity)
	service := func(name string, port int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{
				"namespace": namespace, "name": name, "annotations": map[string]any{v1alpha1.AnnotationIsDelegate: ""},
			},
			"spec": map[string]any{"clusterIP": "None", "ports": []any{map[string]any{"port": port}}},
		}}
	}
	found := func(name string) *corev1.Service {
		return env.Get(t, target, &corev1.Service{ObjectMeta: env.Meta(namespace, name)})
	}
	env.Must(t, w.Write(t.Context(), service("web", 80), false))
	env.Must(t, w.Write(t.Context(), service("web", 81), true))
	got := found("web")
	env.ExpectEqual(t, "port", int32(81), got.Spec.Ports[0].Port)
	annotations := map[string]string{v1alpha1.AnnotationFollowedBy: sourceUser, v1alpha1.AnnotationIsDelegate: ""}
	env.ExpectEqual(t, "annotations", annotations, got.Annotations)

	env.Create(t, target, &corev1.Service{
		ObjectMeta: env.Meta(namespace, "theirs"),
		Spec:       corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 80}}},
	})
	theirs := found("theirs")
	expectNotOurs(t, w.Write(t.Context(), service("theirs", 81), false))
	env.ExpectEqual(t, "their Service", theirs, found("theirs"))
	expectNotOurs(t, w.Delete(t.Context(), theirs, writer.AsSeen(theirs)))
	another := metav1.Preconditions{UID: ptr.To[types.UID]("another")} // It has the name, and is no copy of ours.
	env.Must(t, w.Delete(t.Context(), got, another))
	found("web")
	env.Must(t, w.Delete(t.Context(), got, writer.AsSeen(got)))
	env.Must(t, w.Delete(t.Context(), got, writer.AsSeen(got))) // Deleting twice is no error.
}

// TestWriterWritesOnlyCopiesAfterItsSourceIsGivenMoreRights has a source that is given more rights: the policy does
// not apply to it any more, and nobody informs the writer.
func TestWriterWritesOnlyCopiesAfterItsSourceIsGivenMoreRights(t *testing.T) {
	namespace, _ := engaged(t)
	w := newWriter(t, identity)
	env.Must(t, w.Write(t.Context(), content(namespace, "settings", "1"), false))
	env.Must(t, w.Write(t.Context(), content(namespace, "settings", "2"), true))
	expectUntouched := createTheirs(t, namespace)
	target.Grant(t, sourceUser, namespace, env.Rule("", []string{"configmaps", "pods"}, "create", "get"))
	c := env.ClientFor(t, identity)
	env.Eventually(t, func(ctx context.Context) error {
		return c.Create(ctx, configMap(namespace, "probe", "b"), client.DryRunAll)
	})

	for _, exists := range []bool{true, false} {
		expectNotOurs(t, w.Write(t.Context(), content(namespace, "theirs", "ours"), exists))
	}
	expectUntouched(t)
	env.Must(t, w.Write(t.Context(), content(namespace, "settings", "3"), true))
	env.ExpectEqual(t, "value of a copy", "3", value(t, namespace, "settings"))
}
