package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/certs"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const name = "webhook"

func TestReplicasAgreeOnACertificateThatIsTrusted(t *testing.T) {
	cluster := apiserver.Start(t, apiserver.Options{}, "c1")[0]
	namespace := cluster.Namespace(t, nil)
	config := install(t, cluster, namespace)
	host := name + "." + namespace + ".svc"
	clock := clocktesting.NewFakePassiveClock(time.Now())
	replicas := []*certs.Manager{run(t, config, namespace, clock), run(t, config, namespace, clock), run(t, config, namespace, clock)}

	var first *x509.Certificate
	apiserver.Eventually(t, func(ctx context.Context) error {
		var err error
		first, err = agreed(ctx, cluster, replicas, host)
		return err
	})

	t.Run("and on the next, when that is due", func(t *testing.T) {
		clock.SetTime(first.NotAfter.Add(-time.Hour))
		touch(t, cluster, namespace)
		apiserver.Eventually(t, func(ctx context.Context) error {
			second, err := agreed(ctx, cluster, replicas, host)
			if err == nil && second.Equal(first) {
				return errors.New("the certificate is still the first")
			}
			return err
		})
	})

	t.Run("and tell API servers again when the webhook configuration is made again", func(t *testing.T) {
		before := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: name}, before); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Client.Delete(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		create(t, cluster, webhooks(namespace))
		apiserver.Eventually(t, func(ctx context.Context) error {
			_, err := agreed(ctx, cluster, replicas, host)
			return err
		})
	})
}

func TestWithoutTheSecretItSaysWhatToDo(t *testing.T) {
	cluster := apiserver.Start(t, apiserver.Options{}, "c1")[0]
	namespace := cluster.Namespace(t, nil)
	config := install(t, cluster, namespace)
	if err := cluster.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
		t.Fatal(err)
	}
	replica := run(t, config, namespace, clocktesting.NewFakePassiveClock(time.Now()))
	if err := replica.Ready(nil); err == nil {
		t.Error("it is ready without a certificate")
	}
	create(t, cluster, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	apiserver.Eventually(t, func(context.Context) error { return replica.Ready(nil) })
}

// install makes what the chart makes, and returns a login that has no other rights than the chart gives for this.
func install(t *testing.T, cluster *apiserver.Cluster, namespace string) *rest.Config {
	t.Helper()
	verbs := []string{"get", "list", "watch", "patch"}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "manager"}}
	meta := metav1.ObjectMeta{Name: name}
	metaIn := metav1.ObjectMeta{Namespace: namespace, Name: name}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: metaIn},
		webhooks(namespace),
		&rbacv1.Role{ObjectMeta: metaIn, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: verbs},
		}},
		&rbacv1.RoleBinding{ObjectMeta: metaIn, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}},
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"}, ResourceNames: []string{name}, Verbs: verbs},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}},
	} {
		create(t, cluster, object)
	}
	config, err := cluster.User("manager")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func webhooks(namespace string) *admissionregistrationv1.MutatingWebhookConfiguration {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, webhook := range []string{"a.example.org", "b.example.org"} {
		configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name:                    webhook,
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	return configuration
}

func run(t *testing.T, config *rest.Config, namespace string, clock *clocktesting.FakePassiveClock) *certs.Manager {
	t.Helper()
	manager, err := certs.New(certs.Options{
		Config: config, Namespace: namespace, SecretName: name, ServiceName: name, WebhookConfigurationName: name, Clock: clock, Log: testr.New(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("running: %v", err)
		}
	})
	return manager
}

// agreed returns the certificate if all replicas serve the same and every webhook's authority vouches for it.
func agreed(ctx context.Context, cluster *apiserver.Cluster, replicas []*certs.Manager, host string) (*x509.Certificate, error) {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := cluster.Client.Get(ctx, client.ObjectKey{Name: name}, configuration); err != nil {
		return nil, err
	}
	var leaf *x509.Certificate
	for _, replica := range replicas {
		if err := replica.Ready(nil); err != nil {
			return nil, err
		}
		pair, err := replica.GetCertificate(nil)
		if err != nil {
			return nil, err
		}
		if leaf != nil && !leaf.Equal(pair.Leaf) {
			return nil, errors.New("two replicas serve different certificates")
		}
		leaf = pair.Leaf
	}
	for _, webhook := range configuration.Webhooks {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(webhook.ClientConfig.CABundle)
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: leaf.NotBefore}); err != nil {
			return nil, fmt.Errorf("webhook %q: %w", webhook.Name, err)
		}
	}
	return leaf, nil
}

// touch changes the Secret a little, so that replicas look at it and at their fake clock.
func touch(t *testing.T, cluster *apiserver.Cluster, namespace string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"touched":"true"}}}`))
	if err := cluster.Client.Patch(t.Context(), secret, patch); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, cluster *apiserver.Cluster, object client.Object) {
	t.Helper()
	if err := cluster.Client.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T %q: %v", object, object.GetName(), err)
	}
}
