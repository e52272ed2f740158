package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/certs"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestReplicasAgreeOnACertificateThatIsTrusted(t *testing.T) {
	login, namespace := install(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	var replicas []*certs.Manager
	for range 3 {
		replicas = append(replicas, run(t, login, namespace, clock))
	}

	var first *x509.Certificate
	env.Eventually(t, func(ctx context.Context) (err error) {
		first, err = agreed(ctx, replicas, namespace)
		return err
	})

	t.Run("replicas agree on the next certificate when it is due", func(t *testing.T) {
		clock.SetTime(first.NotAfter.Add(-time.Hour))
		// The change has replicas look at the certificate and at the clock.
		env.Change(t, cluster, secret(namespace), func(s *corev1.Secret) {
			s.Annotations = map[string]string{"touched": "true"}
		})
		env.Eventually(t, func(ctx context.Context) error {
			second, err := agreed(ctx, replicas, namespace)
			if err == nil && second.Equal(first) {
				return errors.New("the certificate is still the first")
			}
			return err
		})
	})

	t.Run("a webhook configuration that is created anew gets the certificate authority", func(t *testing.T) {
		env.Delete(t, cluster, webhooks(namespace))
		env.Create(t, cluster, webhooks(namespace))
		env.Delete(t, cluster, validating(namespace))
		env.Create(t, cluster, validating(namespace))
		env.Eventually(t, func(ctx context.Context) error {
			_, err := agreed(ctx, replicas, namespace)
			return err
		})
	})
}

func TestAReplicaIsReadyOnceItsSecretExists(t *testing.T) {
	login, namespace := install(t)
	env.Delete(t, cluster, secret(namespace))
	replica := run(t, login, namespace, clocktesting.NewFakePassiveClock(time.Now()))
	if err := replica.Ready(nil); err == nil {
		t.Error("the replica is ready without a certificate")
	}
	env.Create(t, cluster, secret(namespace))
	env.Eventually(t, func(context.Context) error { return replica.Ready(nil) })
}

// agreed returns the certificate if all replicas serve the same and the authority of every webhook vouches for it.
func agreed(ctx context.Context, replicas []*certs.Manager, namespace string) (*x509.Certificate, error) {
	var all []certs.Webhook
	for _, configuration := range []client.Object{webhooks(namespace), validating(namespace)} {
		found, err := certs.Webhooks(ctx, cluster.Client, configuration)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
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
	for _, webhook := range all {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(webhook.CABundle)
		host := name + "." + namespace + ".svc"
		options := x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: leaf.NotBefore}
		if _, err := leaf.Verify(options); err != nil {
			return nil, fmt.Errorf("webhook %q: %w", webhook.Name, err)
		}
	}
	return leaf, nil
}
