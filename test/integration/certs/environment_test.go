package certs

import (
	"testing"

	"github.com/go-logr/logr/testr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/certs"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// name is that of the Secret, the Service and the webhook configuration.
const name = "webhook"

var cluster *env.Cluster

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) { cluster = env.Start(t, "c1")[0] })
}

// install creates the objects of the chart, and returns a login with only the rights that the chart gives for
// certificates.
func install(t *testing.T) (login *rest.Config, namespace string) {
	t.Helper()
	namespace = env.Namespace(t, nil, cluster)
	env.Create(t, cluster, secret(namespace), webhooks(namespace), validating(namespace))
	user := "manager of " + namespace
	for _, right := range []struct{ namespace, group, resource string }{
		{namespace, "", "secrets"},
		{"", admissionregistrationv1.GroupName, "mutatingwebhookconfigurations"},
		{"", admissionregistrationv1.GroupName, "validatingwebhookconfigurations"},
	} {
		rule := env.Rule(right.group, []string{right.resource}, "get", "list", "watch", "patch")
		rule.ResourceNames = []string{name}
		cluster.Grant(t, user, right.namespace, rule)
	}
	return cluster.User(t, user), namespace
}

func secret(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: env.Meta(namespace, name)}
}

func webhooks(namespace string) *admissionregistrationv1.MutatingWebhookConfiguration {
	service := &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name}
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, webhook := range []string{"a.example.org", "b.example.org"} {
		configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name:                    webhook,
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{Service: service},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	return configuration
}

func validating(namespace string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	service := &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "c.example.org",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{Service: service},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

// run runs one replica until the test ends.
func run(t *testing.T, login *rest.Config, namespace string, clock *clocktesting.FakePassiveClock) *certs.Manager {
	t.Helper()
	manager, err := certs.New(certs.Options{
		Config: login, Namespace: namespace, SecretName: name, ServiceName: name,
		WebhookConfigurations: []client.Object{webhooks(namespace), validating(namespace)},
		Clock:                 clock, Log: testr.New(t),
	})
	env.Must(t, err)
	env.Run(t, manager.Start)
	return manager
}
