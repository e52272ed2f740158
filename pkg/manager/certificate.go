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

// certificate is where the webhook's serving certificate comes from.
type certificate interface {
	// configure has the webhook server use the certificate.
	configure(*tls.Config)
	// add adds what keeps the certificate valid.
	add(ctrl.Manager) error
	// ready says why API servers cannot call the webhook yet.
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

// fromFiles is a certificate that somebody else, cert-manager for one, keeps in the directory that the webhook server
// watches.
type fromFiles struct{}

func (fromFiles) configure(*tls.Config)  {}
func (fromFiles) add(ctrl.Manager) error { return nil }

// ready leaves it to the check that the webhook server has started: it does not start without the files, and the check
// shakes hands with the certificate in them. Only who keeps the files knows whether API servers trust it.
func (fromFiles) ready(*http.Request) error { return nil }

// selfManaged is a certificate that the manager makes and distributes itself.
type selfManaged struct{ manager *certs.Manager }

func (s selfManaged) configure(config *tls.Config)      { config.GetCertificate = s.manager.GetCertificate }
func (s selfManaged) add(mgr ctrl.Manager) error        { return mgr.Add(s.manager) }
func (s selfManaged) ready(request *http.Request) error { return s.manager.Ready(request) }
