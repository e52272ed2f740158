package follow

import (
	"context"
	"errors"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/copies"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// writer is one of the source source-id's, with somebody's rights in the target.
func (s *story) writer(identity *rest.Config) *copies.Writer {
	s.Helper()
	c, err := client.New(identity, client.Options{Scheme: shared.scheme})
	s.must(err)
	return copies.NewWriter(c, c, translate.Source{ClusterID: "source-id", ClusterName: "c1"})
}

// content is a ConfigMap to be written.
func (s *story) content(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata":   map[string]any{"namespace": s.namespace, "name": name},
		"data":       map[string]any{"a": value},
		"binaryData": nil, "immutable": nil,
	}}
}

// identities are the source's own, and an administrator's, who may run pods.
func identities() map[string]*rest.Config {
	return map[string]*rest.Config{"whom the policy holds": shared.identity, "whom it does not hold": shared.target.Config}
}

func TestWriterWritesCopiesAndNothingElse(t *testing.T) {
	for name, identity := range identities() {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			w := s.writer(identity)
			value := func() string { return there(s, s.configMap("settings", "", "")).Data["a"] }

			s.must(w.Write(t.Context(), s.content("settings", "1"), true)) // It does not exist: a wrong guess.
			s.expect("value of a new copy", "1", value())
			s.must(w.Write(t.Context(), s.content("settings", "2"), false)) // It does.
			s.expect("value of a changed copy", "2", value())

			immutable := s.content("settings", "3")
			immutable.Object["immutable"] = true
			s.must(w.Write(t.Context(), immutable, true))
			before := there(s, s.configMap("settings", "", ""))
			s.expect("immutable", ptr.To(true), before.Immutable)
			s.must(w.Write(t.Context(), immutable, true))
			s.expect("version after a write that changes nothing", before.ResourceVersion, there(s, s.configMap("settings", "", "")).ResourceVersion)
			s.must(w.Write(t.Context(), s.content("settings", "4"), true))
			after := there(s, s.configMap("settings", "", ""))
			s.expect("value of a copy that was immutable", "4", after.Data["a"])
			if after.UID == before.UID || after.Immutable != nil {
				t.Errorf("the copy was not made anew: %v", after)
			}

			theirs := s.configMap("theirs", "a", "theirs")
			s.create(shared.target, theirs)
			for _, exists := range []bool{true, false} {
				if err := w.Write(t.Context(), s.content("theirs", "ours"), exists); !errors.As(err, new(*copies.NotOursError)) {
					t.Errorf("writing what is not ours: %v", err)
				}
			}
			s.expect("what is not ours", theirs, there(s, s.configMap("theirs", "", "")))
		})
	}
}

func TestWriterWritesNothingThatExistsWhereNobodyGuardsOthersObjects(t *testing.T) {
	s := newStory(t)
	const unguarded = "unguarded"
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: unguarded}
	s.create(shared.target, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "update", "delete"}},
	}})
	s.create(shared.target, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: unguarded},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: unguarded}},
	})
	theirs := s.configMap("theirs", "a", "theirs")
	s.create(shared.target, theirs)
	w := s.writer(impersonate(unguarded))
	apiserver.Eventually(t, func(ctx context.Context) error { return w.Write(ctx, s.content("new", "ours"), false) })
	if err := w.Write(t.Context(), s.content("theirs", "ours"), false); !errors.As(err, new(*copies.UnguardedError)) {
		t.Errorf("got %v, want that it is left alone", err)
	}
	s.expect("what is not ours", theirs, there(s, s.configMap("theirs", "", "")))
}

func TestWriterKeepsACopyWhoseSuccessorTheTargetRefuses(t *testing.T) {
	s := newStory(t)
	w := s.writer(shared.identity)
	s.must(w.Write(t.Context(), s.content("settings", "good"), false))
	s.must(w.Write(t.Context(), s.content("settings", "good"), true))
	s.forbidValue("bad")
	err := w.Write(t.Context(), s.content("settings", "bad"), true)
	if !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want the target's refusal", err)
	}
	s.expect("value", "good", there(s, s.configMap("settings", "", "")).Data["a"])
}

// forbidValue has the target refuse ConfigMaps of the namespace with this value, in the words in which it refuses to change what is immutable.
func (s *story) forbidValue(value string) {
	s.Helper()
	meta := metav1.ObjectMeta{Name: "forbid-in-" + s.namespace}
	s.create(shared.target, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: fmt.Sprintf("request.namespace != %q || object == null || object.data['a'] != %q", s.namespace, value),
			}},
		},
	})
	s.create(shared.target, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: meta.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})
	apiserver.Eventually(s.T, func(ctx context.Context) error {
		if err := shared.target.Client.Create(ctx, s.configMap("probe", "a", value), client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policy does not hold: %w", err)
		}
		return nil
	})
}

func TestWriterPatchesWhatSourcesMayRead(t *testing.T) {
	s := newStory(t)
	w := s.writer(shared.identity)
	service := func(name string, port int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{"namespace": s.namespace, "name": name, "annotations": map[string]any{v1alpha1.AnnotationIsDelegate: ""}},
			"spec":     map[string]any{"clusterIP": "None", "ports": []any{map[string]any{"port": port}}},
		}}
	}
	found := func(name string) *corev1.Service {
		return there(s, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}})
	}
	s.must(w.Write(t.Context(), service("web", 80), false))
	s.must(w.Write(t.Context(), service("web", 81), true))
	got := found("web")
	s.expect("port", int32(81), got.Spec.Ports[0].Port)
	s.expect("annotations", map[string]string{v1alpha1.AnnotationFollowedBy: user, v1alpha1.AnnotationIsDelegate: ""}, got.Annotations)

	s.create(shared.target, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "theirs"},
		Spec:       corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 80}}},
	})
	theirs := found("theirs")
	if err := w.Write(t.Context(), service("theirs", 81), false); !errors.As(err, new(*copies.NotOursError)) {
		t.Errorf("writing what is not ours: %v", err)
	}
	s.expect("what is not ours", theirs, found("theirs"))
	if err := w.Delete(t.Context(), theirs, theirs.UID); !apierrors.IsForbidden(err) {
		t.Errorf("deleting what is not ours: %v", err)
	}
	s.must(w.Delete(t.Context(), got, "another")) // Another of the name is no copy of ours.
	found("web")
	s.must(w.Delete(t.Context(), got, got.UID))
	s.must(w.Delete(t.Context(), got, got.UID)) // Gone is gone.
}

// A source that is given more rights is not held to its own copies any more, and it is not told.
func TestWriterWritesNothingElseOnceThePolicyDoesNotHoldItAnyMore(t *testing.T) {
	s := newStory(t)
	w := s.writer(shared.identity)
	s.must(w.Write(t.Context(), s.content("settings", "1"), false))
	s.must(w.Write(t.Context(), s.content("settings", "2"), true))
	theirs := s.configMap("theirs", "a", "theirs")
	s.create(shared.target, theirs)
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: "more"}
	s.create(shared.target, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "pods"}, Verbs: []string{"create", "get"}},
	}})
	s.create(shared.target, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	as, err := client.New(shared.identity, client.Options{Scheme: shared.scheme})
	s.must(err)
	apiserver.Eventually(t, func(ctx context.Context) error {
		return as.Create(ctx, s.configMap("probe", "a", "b"), client.DryRunAll)
	})

	for _, exists := range []bool{true, false} {
		if err := w.Write(t.Context(), s.content("theirs", "ours"), exists); !errors.As(err, new(*copies.NotOursError)) {
			t.Errorf("writing what is not ours: %v", err)
		}
	}
	s.expect("what is not ours", theirs, there(s, s.configMap("theirs", "", "")))
	s.must(w.Write(t.Context(), s.content("settings", "3"), true))
	s.expect("value of a copy", "3", there(s, s.configMap("settings", "", "")).Data["a"])
}
