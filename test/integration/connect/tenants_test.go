package connect

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestTargetsAreWarnedOfTheNextRelease(t *testing.T) {
	namespace := env.Namespace(t, nil, c1, c2)
	insecure := rest.CopyConfig(c2Alice)
	insecure.Insecure, insecure.CAData = true, nil
	secret := &corev1.Secret{ObjectMeta: env.Meta(namespace, "mine")}
	secret.Data = map[string][]byte{"config": env.Kubeconfig(t, env.Context{Name: "x", Login: insecure})}
	object := &v1alpha1.Target{ObjectMeta: env.Meta(namespace, "mine")}
	object.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{Name: "mine"}
	env.CreateForTest(t, c1, secret, object)
	env.WaitFor(t, c1, object, func(object *v1alpha1.Target) error {
		conditions := object.Status.Conditions
		if !meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionConnected) {
			return fmt.Errorf("it is not connected: %v", conditions)
		}
		c := meta.FindStatusCondition(conditions, v1alpha1.ConditionRestricted)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonWouldRefuse {
			return fmt.Errorf("no warning: %v", c)
		}
		for _, value := range []string{"allowInsecure", "allowLoopback", "allowedPodCIDRs"} {
			if !strings.Contains(c.Message, "tenants."+value) {
				return fmt.Errorf("nothing about %s: %s", value, c.Message)
			}
		}
		return nil
	})
	env.WaitForEvent(t, c1, object, v1alpha1.ReasonWouldRefuse, "tenants.allowInsecure")
}
