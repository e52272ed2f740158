package delegate

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestThePolicyOfTheDocsExemptsTheManagerButNoDelegate tries the match condition that docs/security.md shows, in a
// policy that denies everything.
func TestThePolicyOfTheDocsExemptsTheManagerButNoDelegate(t *testing.T) {
	namespace := newNamespace(t, nil)
	denyAll(t, namespace, conditionsOfTheDocs(t))
	user := env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)
	target.Grant(t, user, namespace, env.Rule("", []string{"pods", "configmaps"}, "create", "delete"))
	manager := env.ClientFor(t, target.Impersonate(user))
	denied := func(object client.Object) error {
		err := manager.Create(t.Context(), object, client.DryRunAll)
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), "denied by the test") {
			return fmt.Errorf("creating: %w, want a denial by the policy", err)
		}
		return nil
	}
	allowed := func(err error) {
		t.Helper()
		if err != nil {
			t.Errorf("the manager is not exempt: %v", err)
		}
	}

	owned := &corev1.Pod{ObjectMeta: env.Meta(namespace, "delegate"), Spec: env.PodSpec()}
	owned.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodChaperon", Name: "delegate", UID: "uid"},
	}
	env.Eventually(t, func(context.Context) error { return denied(owned.DeepCopy()) })

	other := &corev1.Pod{ObjectMeta: env.Meta(namespace, "other"), Spec: env.PodSpec()}
	allowed(manager.Create(t.Context(), other))
	allowed(manager.Delete(t.Context(), other, client.GracePeriodSeconds(0)))
	allowed(manager.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: env.Meta(namespace, "copy")}))
}

// conditionsOfTheDocs returns the match conditions that docs/security.md shows.
func conditionsOfTheDocs(t *testing.T) []admissionv1.MatchCondition {
	t.Helper()
	page, err := os.ReadFile("../../../docs/security.md")
	env.Must(t, err)
	_, rest, _ := strings.Cut(string(page), "```yaml\nmatchConditions:")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/security.md shows no match conditions")
	}
	var parsed struct {
		MatchConditions []admissionv1.MatchCondition `json:"matchConditions"`
	}
	env.Must(t, yaml.UnmarshalStrict([]byte("matchConditions:"+example), &parsed))
	return parsed.MatchConditions
}

// denyAll makes a policy that denies all writes of Pods and ConfigMaps in a namespace under the conditions.
func denyAll(t *testing.T, namespace string, conditions []admissionv1.MatchCondition) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny-all"}}
	rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete},
		Rule: admissionv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "configmaps"},
		},
	}}
	policy.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			ResourceRules: []admissionv1.NamedRuleWithOperations{rule},
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: namespace},
			},
		},
		MatchConditions: conditions,
		Validations:     []admissionv1.Validation{{Expression: "false", Message: "denied by the test"}},
		FailurePolicy:   ptr.To(admissionv1.Fail),
	}
	env.Create(t, target, policy, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	})
}
