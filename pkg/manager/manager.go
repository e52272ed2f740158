package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	_ "golang.org/x/crypto/x509roots/fallback" // trusts public certificates: the image has no authorities
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/endpoints"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	callTimeout  = 10 * time.Second
	stopDeadline = 20 * time.Second
)

// Pod describes the manager's own pod.
type Pod struct {
	// Namespace is the namespace of the pod and of the certificate, and by default of the Lease.
	Namespace string
	// ServiceAccount is the name of the pod's service account. It may be empty.
	ServiceAccount string
	// IP is the address at which API servers call the kubelet API.
	IP string
	// Pause is how long to wait before anything else, because starts failed before.
	Pause time.Duration
}

// Run runs the manager until ctx ends, and then stops it in order. It returns nil after an orderly stop. It waits while
// the cluster's API server does not answer. It returns an error if the manager could not start for another reason, or
// lost its Lease. After an error, the process should end at once and start again: parts may still be at work.
func Run(ctx context.Context, restConfig *rest.Config, config *configv1alpha1.Configuration, pod Pod) error {
	if pod.Namespace == "" || pod.IP == "" {
		return errors.New("the environment variables POD_NAMESPACE and POD_IP must be set, from the pod's own fields")
	}
	restConfig = rest.AddUserAgent(rest.CopyConfig(restConfig), v1alpha1.FieldOwner)
	restConfig.QPS = -1                  // The API server's priority and fairness limits requests.
	restConfig.DisableCompression = true // Within a cluster, bandwidth costs less than compressing every watch event.
	scheme, err := newScheme()
	if err != nil {
		return fmt.Errorf("making the scheme: %w", err)
	}
	origin, err := awaitIdentity(ctx, restConfig, scheme, config, pod.Pause)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // It is to stop before it has started.
	}
	if err != nil {
		return err
	}
	serving, err := newCertificate(restConfig, config, pod.Namespace, log.FromContext(ctx))
	if err != nil {
		return fmt.Errorf("preparing the webhook's certificate: %w", err)
	}
	lock, lost, err := newLease(restConfig, leaseNamespace(config, pod), config.LeaderElection.Name)
	if err != nil {
		return err
	}
	fenced := lock.fence(restConfig)
	options, err := managerOptions(ctx, fenced, config, lock, serving)
	if err != nil {
		return err
	}
	options.Scheme = scheme
	mgr, err := ctrl.NewManager(fenced, options)
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	w := wiring{mgr: mgr, config: config, pod: pod, origin: origin, lead: lock.ended}
	if err := w.wire(ctx, serving); err != nil {
		return err
	}
	return start(ctx, mgr, lost)
}

// start runs the manager until ctx ends or the Lease is lost.
func start(ctx context.Context, mgr ctrl.Manager, lost <-chan error) error {
	caches := make(filled)
	if err := mgr.Add(caches); err != nil {
		return fmt.Errorf("adding what waits for the caches: %w", err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	select {
	case err := <-stopped:
		return err
	case why := <-lost: // There is no time to stop in order.
		return why
	case <-ctx.Done():
	}
	select {
	case <-caches:
	default:
		// Until its caches are filled, controller-runtime 0.25 does not stop, but turns in a loop. No part runs yet.
		return nil
	}
	select {
	case err := <-stopped:
		return err
	case why := <-lost:
		return why
	}
}

// filled is closed as soon as the caches are filled that every replica has, also one that does not lead. No part runs
// before that which needs them.
type filled chan struct{}

// Start is called when the caches are filled.
func (f filled) Start(context.Context) error { close(f); return nil }

// NeedLeaderElection returns false.
func (filled) NeedLeaderElection() bool { return false }

func leaseNamespace(config *configv1alpha1.Configuration, pod Pod) string {
	if config.LeaderElection.Namespace != "" {
		return config.LeaderElection.Namespace
	}
	return pod.Namespace
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

// awaitIdentity returns the identity of this cluster as soon as the pause is over and the API server answers.
func awaitIdentity(
	ctx context.Context,
	restConfig *rest.Config,
	scheme *runtime.Scheme,
	config *configv1alpha1.Configuration,
	pause time.Duration,
) (origin translate.Source, err error) {
	err = await(ctx, config.Health.BindAddress, pause, log.FromContext(ctx), func(ctx context.Context) error {
		var err error
		origin, err = identify(ctx, restConfig, scheme, config)
		return err
	})
	return origin, err
}

// identify returns the identity of this cluster in the targets that it shares with others.
func identify(
	ctx context.Context,
	restConfig *rest.Config,
	scheme *runtime.Scheme,
	config *configv1alpha1.Configuration,
) (translate.Source, error) {
	origin := translate.Source{ClusterID: config.ClusterID, ClusterName: config.ClusterName}
	if origin.ClusterID != "" {
		return origin, nil
	}
	reader, err := client.New(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		return origin, fmt.Errorf("making a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	namespace := &corev1.Namespace{}
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		const text = "getting namespace %q, whose UID is the cluster's ID: %w"
		return origin, fmt.Errorf(text, metav1.NamespaceSystem, err)
	}
	origin.ClusterID = string(namespace.UID)
	return origin, nil
}

// managerOptions returns options without a scheme. The manager's client uses connections that the kernel gives up: what
// it was to write is not written after the next leader has begun.
func managerOptions(
	ctx context.Context,
	restConfig *rest.Config,
	config *configv1alpha1.Configuration,
	lock *lease,
	serving certificate,
) (ctrl.Options, error) {
	writes, err := wire.HTTPClientFor(restConfig)
	if err != nil {
		return ctrl.Options{}, fmt.Errorf("making a client: %w", err)
	}
	return ctrl.Options{
		Client:                              client.Options{HTTPClient: writes},
		Logger:                              log.FromContext(ctx),
		Cache:                               cacheOptions(),
		LeaderElection:                      *config.LeaderElection.Enabled,
		LeaderElectionID:                    config.LeaderElection.Name,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       new(timeouts.LeaseDuration),
		RenewDeadline:                       new(timeouts.LeaseRenewal),
		RetryPeriod:                         new(timeouts.LeaseRetry),
		Metrics:                             metricsOptions(config.Metrics),
		HealthProbeBindAddress:              config.Health.BindAddress,
		GracefulShutdownTimeout:             new(stopDeadline),
		WebhookServer: newBoundedServer(arriveWithin, webhook.Options{
			Port:    config.Webhook.Port,
			CertDir: config.Webhook.CertDir,
			TLSOpts: []func(*tls.Config){serving.configure},
		}),
	}, nil
}

// metricsOptions serve the metrics in the clear, or over TLS with a certificate that the process makes for itself. Then
// the API server says who a caller is, and whether they may get the path.
func metricsOptions(config configv1alpha1.Metrics) metricsserver.Options {
	options := metricsserver.Options{BindAddress: config.BindAddress}
	if config.Secure {
		options.SecureServing = true
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return options
}

// cacheOptions make the cache keep only the fields that the parts need. Of pods that are not ours, these are the fields
// that capacity counts.
func cacheOptions() cache.Options {
	byObject := source.CacheByObject()
	byObject[&corev1.Pod{}] = cache.ByObject{Transform: podcache.Transform}
	byObject[&corev1.Node{}] = cache.ByObject{Transform: podcache.TransformNode}
	slices, ofSources := endpoints.CacheByObject()
	byObject[slices] = ofSources
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         byObject,
	}
}
