package target

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/version"
)

const (
	requestTimeout = 15 * time.Second
	dialTimeout    = 10 * time.Second
	// A connection that was silent for pingAfter is pinged. It is closed if no answer comes within pingTimeout.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
	idleTimeout = 90 * time.Second
)

// dialer makes the clients of one engagement. The clients share their connections.
type dialer struct {
	config    *rest.Config
	scheme    *runtime.Scheme
	transport *http.Transport
	requests  *http.Client // gives up after requestTimeout
	streams   *http.Client // for watches
	mapper    meta.RESTMapper
}

func newDialer(config *rest.Config, scheme *runtime.Scheme) (*dialer, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Timeout = 0
	config.UserAgent = "multicluster-scheduler/" + version.Version
	transport, err := newTransport(config)
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	authenticated, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, fmt.Errorf("reading credentials: %w", err)
	}
	return &dialer{
		config:    config,
		scheme:    scheme,
		transport: transport,
		requests:  &http.Client{Transport: authenticated, Timeout: requestTimeout},
		streams:   &http.Client{Transport: authenticated},
		mapper:    newMapper(),
	}, nil
}

// newMapper returns a mapper of the kinds that the manager reads and writes in targets. Discovery would cost several
// requests and 0.2 MB of the manager's memory for each target.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		v1alpha1.GroupVersion.WithKind("PodChaperon"):                     meta.RESTScopeNamespace,
		v1alpha1.GroupVersion.WithKind("ClusterSummary"):                  meta.RESTScopeRoot,
		authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"): meta.RESTScopeRoot,
		corev1.SchemeGroupVersion.WithKind("ConfigMap"):                   meta.RESTScopeNamespace,
		corev1.SchemeGroupVersion.WithKind("Secret"):                      meta.RESTScopeNamespace,
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"):              meta.RESTScopeNamespace,
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):       meta.RESTScopeNamespace,
		storagev1.SchemeGroupVersion.WithKind("StorageClass"):             meta.RESTScopeRoot,
		corev1.SchemeGroupVersion.WithKind("Service"):                     meta.RESTScopeNamespace,
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):          meta.RESTScopeNamespace,
		networkingv1.SchemeGroupVersion.WithKind("Ingress"):               meta.RESTScopeNamespace,
	} {
		mapper.Add(kind, scope)
		mapper.Add(kind.GroupVersion().WithKind(kind.Kind+"List"), scope)
	}
	return mapper
}

func newTransport(config *rest.Config) (*http.Transport, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)
	}
	keepAlive := net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingTimeout, Count: 2}
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive}).DialContext,
		TLSClientConfig:     tls,
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: 25, // for a proxy that speaks only HTTP/1.1
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:  config.DisableCompression,
	}, nil
}

func (d *dialer) version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	c, err := discovery.NewDiscoveryClientForConfigAndClient(d.config, d.requests)
	if err != nil {
		return "", fmt.Errorf("making a discovery client: %w", err)
	}
	info, err := c.ServerVersionWithContext(ctx)
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

func (d *dialer) reader() (client.Reader, error) {
	return client.New(d.config, client.Options{HTTPClient: d.requests, Scheme: d.scheme, Mapper: d.mapper})
}

// client returns a client that reads from the cache and writes to the API server.
func (d *dialer) client(c cache.Cache) (client.Client, error) {
	written, err := client.New(d.config, client.Options{
		HTTPClient: d.requests,
		Scheme:     d.scheme,
		Mapper:     d.mapper,
		Cache:      &client.CacheOptions{Reader: c},
	})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client.WithFieldOwner(written, v1alpha1.FieldOwner), nil
}

func (d *dialer) cache(options cache.Options) (cache.Cache, error) {
	options.HTTPClient = d.streams
	options.Scheme = d.scheme
	options.Mapper = d.mapper
	return cache.New(d.config, options)
}

// close closes the connections: the idle ones now, and the others when their requests have ended.
func (d *dialer) close() { d.transport.CloseIdleConnections() }
