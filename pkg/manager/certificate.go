package manager

import (
	"crypto/tls"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/certs"
)

// certificate is the source of the webhook's serving certificate.
type certificate interface {
	// configure makes the webhook server use the certificate.
	configure(*tls.Config)
	// add adds the part that renews the certificate, if there is one.
	add(ctrl.Manager) error
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
		return fromFiles{}, nil
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
// cert-manager.
type fromFiles struct{}

func (fromFiles) configure(*tls.Config)  {}
func (fromFiles) add(ctrl.Manager) error { return nil }

// ready returns nil, because another check is enough: the webhook server does not start without the files, and its
// check makes a TLS handshake with their certificate. Whether API servers trust the certificate is not known here.
func (fromFiles) ready(*http.Request) error { return nil }

// selfManaged is a certificate that the manager issues and publishes itself.
type selfManaged struct{ manager *certs.Manager }

func (s selfManaged) configure(config *tls.Config)      { config.GetCertificate = s.manager.GetCertificate }
func (s selfManaged) add(mgr ctrl.Manager) error        { return mgr.Add(s.manager) }
func (s selfManaged) ready(request *http.Request) error { return s.manager.Ready(request) }
