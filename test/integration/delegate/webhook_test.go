package delegate

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestAPodChaperonShowsThatAWebhookOfTheTargetDoesNotAnswer(t *testing.T) {
	namespace := newNamespace(t, nil)
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "policy-engine.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: namespace},
			},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	env.Create(t, target, webhook)
	c := create(t, namespace)
	shown := env.WaitFor(t, target, c, func(c *v1alpha1.PodChaperon) error {
		warnings, _ := translate.Warnings(c.Status.Conditions)
		if len(warnings) == 1 && warnings[0].Reason == translate.WarningFailedCreate &&
			strings.Contains(warnings[0].Message, `failed calling webhook "policy-engine.example.com"`) {
			return nil
		}
		return fmt.Errorf("conditions %v", c.Status.Conditions)
	})
	if env.Exists(t, target, &corev1.Pod{ObjectMeta: env.Meta(c.Namespace, c.Name)}) {
		t.Error("there is a delegate")
	}

	env.Delete(t, target, webhook)
	pod := waitForDelegate(t, c)
	if now := env.Get(t, target, c); now.ResourceVersion != shown.ResourceVersion {
		t.Errorf("the warning was written again: %v, and before %v", now.Status, shown.Status)
	}
	runDelegate(t, c, pod)
}
