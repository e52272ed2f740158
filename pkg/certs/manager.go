package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	fieldOwner            = "multicluster-scheduler-certificate"
	timeout               = 30 * time.Second
	firstRetry, lastRetry = 500 * time.Millisecond, time.Minute
)

// Options of New. All are required except Log.
type Options struct {
	// Config has the rights to get, list, watch and patch the Secret and the webhook configurations.
	Config *rest.Config
	// Namespace is the namespace of the Secret and of the Service.
	Namespace  string
	SecretName string
	// ServiceName is the name of the Service through which API servers call the webhook.
	ServiceName string
	// WebhookConfigurations have the kinds and names of the configurations whose webhooks get the authority.
	WebhookConfigurations []client.Object
	Clock                 clock.PassiveClock
	// Log is silent by default.
	Log logr.Logger
}

// Manager keeps the certificate valid. It is a runnable of a controller-runtime manager, and runs on every replica.
type Manager struct {
	options    Options
	cache      cache.Cache
	client     client.Client
	controller controller.Controller

	mu          sync.RWMutex // guards the fields below
	certificate *tls.Certificate
	published   bool  // The authorities were published in all configurations at least once.
	problem     error // the error of the last attempt
}

// New returns a Manager, which does not connect before Start.
func New(options Options) (*Manager, error) {
	m := &Manager{options: options, problem: errors.New("the webhook's certificate has not been read yet")}
	var err error
	if m.client, err = client.New(options.Config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return nil, fmt.Errorf("making a client for the webhook's certificate: %w", err)
	}
	if m.cache, err = newCache(options); err != nil {
		return nil, fmt.Errorf("making a cache for the webhook's certificate: %w", err)
	}
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
	m.controller, err = controller.NewUnmanaged("webhook-certificate", controller.Options{
		Reconciler:         m,
		Logger:             options.Log,
		RateLimiter:        retries,
		SkipNameValidation: ptr.To(true), // A test may have several managers.
	})
	if err != nil {
		return nil, fmt.Errorf("making the controller of the webhook's certificate: %w", err)
	}
	secret := client.ObjectKey{Namespace: options.Namespace, Name: options.SecretName}
	forSecret := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: secret}}
	})
	for _, object := range append([]client.Object{&corev1.Secret{}}, options.WebhookConfigurations...) {
		if err := m.controller.Watch(source.Kind(m.cache, object, forSecret)); err != nil {
			return nil, fmt.Errorf("watching for the webhook's certificate: %w", err)
		}
	}
	return m, nil
}

// newCache returns a cache of these objects. It lists and watches them by name, so rights by name are enough.
func newCache(options Options) (cache.Cache, error) {
	byObject := map[client.Object]cache.ByObject{
		&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{options.Namespace: {}},
			Field:      fields.OneTermEqualSelector(metav1.ObjectNameField, options.SecretName),
		},
	}
	for _, configuration := range options.WebhookConfigurations {
		byObject[configuration] = byName(configuration)
	}
	return cache.New(options.Config, cache.Options{Scheme: scheme.Scheme, ByObject: byObject})
}

// NeedLeaderElection returns false, because every replica serves.
func (m *Manager) NeedLeaderElection() bool { return false }

// Start runs until ctx ends.
func (m *Manager) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	cached := make(chan error, 1)
	go func() { cached <- m.cache.Start(ctx) }()
	err := m.controller.Start(ctx)
	cancel()
	return errors.Join(err, <-cached)
}

// GetCertificate implements tls.Config.GetCertificate. It fails until there is a certificate.
func (m *Manager) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.certificate == nil {
		return nil, m.problem
	}
	return m.certificate, nil
}

// Ready is a healthz.Checker. It returns nil once there is a certificate and its authority was published. Later
// problems (somebody deletes the Secret) are logged and retried. They do not matter until the certificate expires.
func (m *Manager) Ready(*http.Request) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.certificate != nil && m.published {
		return nil
	}
	return m.problem
}

// Reconcile renews the certificate in the Secret if due, serves it, and publishes the authorities.
func (m *Manager) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	next, err := m.ensureCertificate(ctx, request.NamespacedName)
	if err == nil {
		m.setProblem(nil)
		return reconcile.Result{RequeueAfter: max(next.Sub(m.options.Clock.Now()), time.Second)}, nil
	}
	m.setProblem(err)
	if apierrors.IsConflict(err) {
		// Another replica was first. Its version is about to arrive; the retry covers the case that it does not.
		log.FromContext(ctx).V(1).Info("certificate changed meanwhile")
		return reconcile.Result{RequeueAfter: firstRetry}, nil
	}
	return reconcile.Result{}, err
}

// ensureCertificate returns when to reconcile again.
func (m *Manager) ensureCertificate(ctx context.Context, key client.ObjectKey) (time.Time, error) {
	secret := &corev1.Secret{}
	if err := m.cache.Get(ctx, key, secret); err != nil {
		const text = "getting the webhook's certificate (the chart creates its Secret; helm upgrade restores it): %w"
		return time.Time{}, fmt.Errorf(text, err)
	}
	host := fmt.Sprintf("%s.%s.svc", m.options.ServiceName, m.options.Namespace)
	now := m.options.Clock.Now()
	current := parse(secret.Data)
	todo := decide(current, host, now)
	if todo.authority || todo.serving {
		renewed, err := current.renew(todo, host, now)
		if err != nil {
			return time.Time{}, err
		}
		if err := m.writeSecret(ctx, secret, renewed); err != nil {
			return time.Time{}, err
		}
		log.FromContext(ctx).Info("webhook certificate renewed", "authority", todo.authority, "serving", todo.serving,
			"expires", renewed.serving.Leaf.NotAfter)
		current, todo = renewed, decide(renewed, host, now)
	}
	m.serve(current.serving)
	return todo.next, m.publish(ctx, current.bundle())
}

// writeSecret replaces the Secret's data. It fails with a conflict if somebody changed the Secret meanwhile.
func (m *Manager) writeSecret(ctx context.Context, secret *corev1.Secret, renewed material) error {
	data, err := renewed.data()
	if err != nil {
		return err
	}
	after := secret.DeepCopy()
	if after.Data == nil {
		after.Data = map[string][]byte{}
	}
	maps.Copy(after.Data, data)
	patch := client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})
	if err := m.client.Patch(ctx, after, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("writing the webhook's certificate: %w", err)
	}
	return nil
}

// publish writes the trusted authorities into the webhook configurations, unless they are there.
func (m *Manager) publish(ctx context.Context, bundle []byte) error {
	for _, configuration := range m.options.WebhookConfigurations {
		if err := m.publishIn(ctx, configuration, bundle); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published = true
	return nil
}

func (m *Manager) publishIn(ctx context.Context, configuration client.Object, bundle []byte) error {
	webhooks, err := Webhooks(ctx, m.cache, configuration)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(webhooks, func(w Webhook) bool { return !bytes.Equal(w.CABundle, bundle) }) {
		return nil
	}
	desired, err := withAuthority(configuration, webhooks, bundle)
	if err != nil {
		return err
	}
	if err := m.client.Apply(ctx, desired, client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("patching webhook configuration %q: %w", configuration.GetName(), err)
	}
	return nil
}

func (m *Manager) serve(certificate *tls.Certificate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.certificate = certificate
}

func (m *Manager) setProblem(problem error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.problem = problem
}
