package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// newTenantsTarget creates a Target in a new namespace, whose kubeconfig has the login.
func newTenantsTarget(t *testing.T, login *rest.Config) *v1alpha1.Target {
	t.Helper()
	namespace := env.Namespace(t, env.Enabled(), c1)
	secret := &corev1.Secret{ObjectMeta: env.Meta(namespace, "mine")}
	secret.Data = map[string][]byte{"config": env.Kubeconfig(t, env.Context{Name: "x", Login: login})}
	object := &v1alpha1.Target{ObjectMeta: env.Meta(namespace, "mine")}
	object.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{Name: "mine"}
	env.CreateForTest(t, c1, secret, object)
	return object
}

func waitForCondition(t *testing.T, object *v1alpha1.Target, reason, text string) {
	t.Helper()
	env.WaitFor(t, c1, object, func(found *v1alpha1.Target) error {
		condition := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ConditionConnected)
		if condition == nil || condition.Reason != reason || !strings.Contains(condition.Message, text) {
			return fmt.Errorf("the condition is %+v, want %s and something about %q", condition, reason, text)
		}
		return nil
	})
}

func TestTargetsOfTenantsMustNotLeadToTheSource(t *testing.T) {
	waitForCondition(t, newTenantsTarget(t, c1.Config), v1alpha1.ReasonAddressRefused, "tenants.allowOwnAddresses")
}

func TestKubeconfigsOfTenantsAreVerified(t *testing.T) {
	insecure := rest.CopyConfig(c2Source)
	insecure.Insecure, insecure.CAData, insecure.CAFile = true, nil, ""
	waitForCondition(t, newTenantsTarget(t, insecure), v1alpha1.ReasonInvalidKubeconfig, "tenants.allowInsecure")
}

func TestVirtualNodesOfTenantsGetAllowedLabels(t *testing.T) {
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	summary.Labels = map[string]string{
		"topology.kubernetes.io/zone": "stolen", "example.com/gpu": "a100", "node-restriction.kubernetes.io/x": "y",
	}
	env.CreateForTest(t, c1, summary)
	object := &v1alpha1.Target{ObjectMeta: env.Meta(env.Namespace(t, env.Enabled(), c1), "self")}
	object.Spec.Self = true
	env.CreateForTest(t, c1, object)
	name := translate.VirtualNodeName(types.NamespacedName{Namespace: object.Namespace, Name: object.Name})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node = env.WaitFor(t, c1, node, func(node *corev1.Node) error {
		if node.Labels["example.com/gpu"] != "a100" {
			return fmt.Errorf("it has the labels %v", node.Labels)
		}
		return nil
	})
	for key := range node.Labels {
		if strings.Contains(key, "topology") || strings.Contains(key, "restriction") {
			t.Errorf("it has the label %s", key)
		}
	}
}

func TestAQuotaLimitsTargets(t *testing.T) {
	namespace := env.Namespace(t, nil, c1)
	c1.Install(t, env.Render(t, env.Release, "--show-only", "templates/rbac/tenant.yaml"), "")
	c1.BindRole(t, "tenant", namespace, env.Release+"-tenant")
	const count = corev1.ResourceName("count/targets.multicluster.admiralty.io")
	quota := &corev1.ResourceQuota{ObjectMeta: env.Meta(namespace, "targets")}
	quota.Spec.Hard = corev1.ResourceList{count: resource.MustParse("1")}
	env.Create(t, c1, quota)
	env.ChangeStatus(t, c1, quota, func(q *corev1.ResourceQuota) { // as the controller of quotas
		q.Status = corev1.ResourceQuotaStatus{
			Hard: q.Spec.Hard, Used: corev1.ResourceList{count: resource.MustParse("0")},
		}
	})
	tenant := env.ClientFor(t, c1.User(t, "tenant"))
	first, second := &v1alpha1.Target{ObjectMeta: env.Meta(namespace, "first")}, &v1alpha1.Target{}
	first.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{Name: "none"}
	env.Eventually(t, func(ctx context.Context) error { return tenant.Create(ctx, first) }) // once the role is known
	second.ObjectMeta, second.Spec = env.Meta(namespace, "second"), first.Spec
	if err := tenant.Create(t.Context(), second); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "exceeded quota: targets") {
		t.Errorf("a second Target: %v", err)
	}
	key := types.NamespacedName{Namespace: namespace, Name: "x"}
	if err := tenant.Get(t.Context(), key, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("the tenant reads Secrets: %v", err)
	}
	env.Must(t, tenant.Delete(t.Context(), first))
}
