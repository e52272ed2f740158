package manager

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/certs"
)

// readTimeout bounds a read of the webhook configuration, which is shorter than a probe.
const readTimeout = 2 * time.Second

// certificate is the source of the webhook's serving certificate.
type certificate interface {
	// configure makes the webhook server use the certificate.
	configure(*tls.Config)
	// add adds the part that renews or watches the certificate, if there is one.
	add(ctrl.Manager) error
	// missing returns an error if there is no certificate, so that the webhook cannot serve and a restart cannot help.
	missing() error
	// ready returns an error that says why API servers cannot call the webhook yet, or nil if they can.
	ready(*http.Request) error
}

func newCertificate(
	restConfig *rest.Config,
	webhook configv1alpha1.Webhook,
	namespace string,
	log logr.Logger,
) (certificate, error) {
	if webhook.SelfManaged == nil {
		return newFromFiles(restConfig, webhook)
	}
	manager, err := certs.New(certs.Options{
		Config:                   restConfig,
		Namespace:                namespace,
		SecretName:               webhook.SelfManaged.SecretName,
		ServiceName:              webhook.SelfManaged.ServiceName,
		WebhookConfigurationName: webhook.SelfManaged.WebhookConfigurationName,
		Clock:                    clock.RealClock{},
		Log:                      log,
	})
	return selfManaged{manager}, err
}

// fromFiles is a certificate in the directory that the webhook server watches. Somebody else renews it, such as
// cert-manager, and writes its authority into the webhook configuration. The webhook server does not start without the
// files.
type fromFiles struct {
	dir           string
	configuration string
	// reader reads the webhook configuration. If it is nil, nobody is known to write the authority.
	reader client.Reader
}

func newFromFiles(restConfig *rest.Config, webhook configv1alpha1.Webhook) (fromFiles, error) {
	files := fromFiles{dir: webhook.CertDir, configuration: webhook.ConfigurationName}
	if webhook.ConfigurationName == "" {
		return files, nil
	}
	byName := fields.OneTermEqualSelector("metadata.name", webhook.ConfigurationName) // Rights by name are enough.
	watched, err := cache.New(restConfig, cache.Options{
		Scheme:           scheme.Scheme,
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&admissionregistrationv1.MutatingWebhookConfiguration{}: {Field: byName},
		},
	})
	if err != nil {
		return files, fmt.Errorf("making a cache for the webhook configuration: %w", err)
	}
	files.reader = onEveryReplica{watched}
	return files, nil
}

// onEveryReplica is a cache that also runs on replicas that do not lead.
type onEveryReplica struct{ cache.Cache }

// NeedLeaderElection returns false.
func (onEveryReplica) NeedLeaderElection() bool { return false }

func (fromFiles) configure(*tls.Config) {}

func (f fromFiles) add(mgr ctrl.Manager) error {
	if watched, ok := f.reader.(onEveryReplica); ok {
		return mgr.Add(watched)
	}
	return nil
}

func (fromFiles) missing() error { return nil }

// ready returns an error until every webhook of the configuration has an authority that vouches for the certificate.
func (f fromFiles) ready(request *http.Request) error {
	if f.reader == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), readTimeout)
	defer cancel()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := f.reader.Get(ctx, client.ObjectKey{Name: f.configuration}, configuration); err != nil {
		return fmt.Errorf("getting webhook configuration %q: %w", f.configuration, err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(f.dir, "tls.crt"), filepath.Join(f.dir, "tls.key"))
	if err != nil {
		return fmt.Errorf("reading the webhook's certificate: %w", err)
	}
	for i := range configuration.Webhooks {
		webhook := &configuration.Webhooks[i]
		if err := vouches(&webhook.ClientConfig, pair); err != nil {
			return fmt.Errorf("API servers cannot call webhook %q: its caBundle in MutatingWebhookConfiguration %q "+
				"does not vouch for the certificate (%w); cert-manager's CA injector writes the caBundle, "+
				"so check that it runs", webhook.Name, f.configuration, err)
		}
	}
	return nil
}

// vouches returns an error unless an API server that calls a webhook with this configuration trusts the certificate.
func vouches(webhook *admissionregistrationv1.WebhookClientConfig, pair tls.Certificate) error {
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
	options.Roots.AppendCertsFromPEM(webhook.CABundle)
	if service := webhook.Service; service != nil {
		options.DNSName = service.Name + "." + service.Namespace + ".svc"
	}
	for _, der := range pair.Certificate[1:] {
		if intermediate, err := x509.ParseCertificate(der); err == nil {
			options.Intermediates.AddCert(intermediate)
		}
	}
	_, err := pair.Leaf.Verify(options)
	return err
}

// selfManaged is a certificate that the manager issues and publishes itself.
type selfManaged struct{ manager *certs.Manager }

func (s selfManaged) configure(config *tls.Config)      { config.GetCertificate = s.manager.GetCertificate }
func (s selfManaged) add(mgr ctrl.Manager) error        { return mgr.Add(s.manager) }
func (s selfManaged) ready(request *http.Request) error { return s.manager.Ready(request) }

func (s selfManaged) missing() error {
	_, err := s.manager.GetCertificate(nil)
	return err
}
