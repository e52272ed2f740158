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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// certificate is the source of the webhooks' serving certificate.
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
	config *configv1alpha1.Configuration,
	namespace string,
	log logr.Logger,
) (certificate, error) {
	webhook := config.Webhook
	if webhook.SelfManaged == nil {
		return newFromFiles(restConfig, webhook, configurations(config, webhook.ConfigurationName))
	}
	manager, err := certs.New(certs.Options{
		Config:                restConfig,
		Namespace:             namespace,
		SecretName:            webhook.SelfManaged.SecretName,
		ServiceName:           webhook.SelfManaged.ServiceName,
		WebhookConfigurations: configurations(config, webhook.SelfManaged.WebhookConfigurationName),
		Clock:                 clock.RealClock{},
		Log:                   log,
	})
	return selfManaged{manager}, err
}

// configurations returns the webhook configurations. They have the same name: that of pods is a source's, and that of
// EndpointSlices is a target's.
func configurations(config *configv1alpha1.Configuration, name string) []client.Object {
	var all []client.Object
	named := metav1.ObjectMeta{Name: name}
	if *config.Roles.Source {
		all = append(all, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: named})
	}
	if *config.Roles.Target && *config.Endpoints.Check {
		all = append(all, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: named})
	}
	return all
}

// fromFiles is a certificate in the directory that the webhook server watches. Somebody else renews it, such as
// cert-manager, and writes its authority into the webhook configurations. The webhook server does not start without the
// files.
type fromFiles struct {
	dir            string
	configurations []client.Object
	// reader reads the webhook configurations. If it is nil, nobody is known to write the authority.
	reader client.Reader
}

func newFromFiles(
	restConfig *rest.Config, webhook configv1alpha1.Webhook, configurations []client.Object,
) (fromFiles, error) {
	files := fromFiles{dir: webhook.CertDir, configurations: configurations}
	if webhook.ConfigurationName == "" {
		return files, nil
	}
	byName := fields.OneTermEqualSelector("metadata.name", webhook.ConfigurationName) // Rights by name are enough.
	byObject := map[client.Object]cache.ByObject{}
	for _, configuration := range configurations {
		byObject[configuration] = cache.ByObject{Field: byName}
	}
	watched, err := cache.New(restConfig, cache.Options{
		Scheme:           scheme.Scheme,
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         byObject,
	})
	if err != nil {
		return files, fmt.Errorf("making a cache for the webhook configurations: %w", err)
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

// ready returns an error until every webhook of the configurations has an authority that vouches for the certificate.
func (f fromFiles) ready(request *http.Request) error {
	if f.reader == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), readTimeout)
	defer cancel()
	pair, err := tls.LoadX509KeyPair(filepath.Join(f.dir, "tls.crt"), filepath.Join(f.dir, "tls.key"))
	if err != nil {
		return fmt.Errorf("reading the webhook's certificate: %w", err)
	}
	for _, configuration := range f.configurations {
		webhooks, err := certs.Webhooks(ctx, f.reader, configuration)
		if err != nil {
			return err
		}
		for i := range webhooks {
			if err := vouches(&webhooks[i].WebhookClientConfig, pair); err != nil {
				return fmt.Errorf("API servers cannot call webhook %q: its caBundle in webhook configuration %q "+
					"does not vouch for the certificate (%w); cert-manager's CA injector writes the caBundle, "+
					"so check that it runs", webhooks[i].Name, configuration.GetName(), err)
			}
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
