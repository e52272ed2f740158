package target

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/version"
)

// dialer makes the clients of one engagement. The clients share their connections and their account.
type dialer struct {
	wire    *wire.Connection
	account *wire.Account
	fence   *wire.Fence
	scheme  *runtime.Scheme
	config  *rest.Config // hardened
	clients *http.Client
	mapper  meta.RESTMapper
	live    client.Reader // does not pass the gate
	// deadline returns that of a request.
	deadline func() time.Duration
}

// login returns the configuration with which to connect to a target, from that of its kubeconfig.
type login func(context.Context, types.NamespacedName, *rest.Config, wire.Dial) (*rest.Config, error)

// dial returns the dialer for an engagement with the cluster of who, or with any if it is nil. Its account is the
// loop's from now on.
func (l *loop) dial(ctx context.Context, w want, login login, who *identity.Identity) (*dialer, error) {
	limits := wire.Default()
	account := wire.NewAccount(limits, l.options.Clock)
	l.attempt = attempt{account: account, warned: &atomic.Pointer[wire.AddressError]{}}
	config := rest.CopyConfig(w.config)
	config.QPS = -1
	config.Timeout = 0
	config.UserAgent = "multicluster-scheduler/" + version.Version
	config, err := login(ctx, l.key, config, l.dialRules(w))
	if err != nil {
		return nil, err
	}
	d := &dialer{
		account: account, fence: &wire.Fence{Lead: l.options.Lead}, scheme: l.options.Scheme, mapper: newMapper(),
		deadline: l.deadline,
	}
	options := wire.Options{
		Limits: limits, Account: account, Dial: l.dialRules(w), Turn: l.options.turns.of(l.key), Fence: d.fence,
		Answered: l.answered,
	}
	if !w.self && who != nil {
		options.Confirm = d.confirmBy(who)
	}
	if d.wire, err = wire.Harden(config, options); err != nil {
		return nil, err
	}
	d.config = d.wire.Config()
	d.clients = &http.Client{Transport: d.config.Transport}
	d.live, err = d.reader(d.config)
	return d, err
}

// confirmBy returns a function that asks by a configuration whether it leads to the right cluster.
func (d *dialer) confirmBy(who *identity.Identity) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		reader, err := d.reader(config)
		if err != nil {
			return err
		}
		return who.Confirm(ctx, reader)
	}
}

// reader returns a reader by a hardened configuration. What it reads has not passed the gate.
func (d *dialer) reader(config *rest.Config) (client.Reader, error) {
	clients := &http.Client{Transport: config.Transport}
	reader, err := client.New(config, client.Options{HTTPClient: clients, Scheme: d.scheme, Mapper: d.mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return reader, nil
}

// dialRules returns which addresses the target may have. Tenants write Targets, and must not lead the manager to
// addresses that they cannot reach themselves.
func (l *loop) dialRules(w want) wire.Dial {
	rules, warned, own := l.options.Tenants, l.attempt.warned, l.options.Addresses
	if l.key.Namespace == "" || w.self {
		return wire.Dial{}
	}
	return wire.Dial{Check: func(address netip.Addr) error {
		var err error
		if !rules.AllowLoopback {
			err = wire.CheckPublic(address)
		}
		if err == nil && !rules.AllowOwnAddresses {
			err = own.Check(address)
		}
		if refused := (*wire.AddressError)(nil); errors.As(err, &refused) && !rules.Enforce {
			warned.Store(refused)
			return nil
		}
		return err
	}}
}

// warnedAddress returns the address of the last connection that is to be refused in future, or nil.
func (l *loop) warnedAddress() *wire.AddressError {
	if l.attempt.warned == nil {
		return nil
	}
	return l.attempt.warned.Load()
}

// newMapper returns a mapper of the kinds that the manager reads and writes in targets. Discovery would cost several
// requests and 0.2 MB of the manager's memory for each target.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		v1alpha1.GroupVersion.WithKind("PodChaperon"):                     meta.RESTScopeNamespace,
		v1alpha1.GroupVersion.WithKind("ClusterSummary"):                  meta.RESTScopeRoot,
		v1alpha1.GroupVersion.WithKind("SourceGrant"):                     meta.RESTScopeRoot,
		authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"): meta.RESTScopeRoot,
		coordinationv1.SchemeGroupVersion.WithKind("Lease"):               meta.RESTScopeNamespace,
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

func (d *dialer) version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.deadline())
	defer cancel()
	c, err := discovery.NewDiscoveryClientForConfigAndClient(d.config, d.clients)
	if err != nil {
		return "", fmt.Errorf("making a discovery client: %w", err)
	}
	info, err := c.ServerVersionWithContext(ctx)
	if err != nil {
		return "", err
	}
	return wire.Shorten(info.GitVersion, maxVersion), nil
}

// client returns a client that reads from the cache and writes to the API server.
func (d *dialer) client(c cache.Cache) (client.Client, error) {
	written, err := client.New(d.config, client.Options{
		HTTPClient: d.clients,
		Scheme:     d.scheme,
		Mapper:     d.mapper,
		Cache:      &client.CacheOptions{Reader: c},
	})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client.WithFieldOwner(written, v1alpha1.FieldOwner), nil
}

// cache returns a cache whose objects are on the account.
func (d *dialer) cache(options cache.Options) (cache.Cache, error) {
	options.HTTPClient = d.clients
	options.Scheme = d.scheme
	options.Mapper = d.mapper
	newInformer := options.NewInformer
	if newInformer == nil {
		newInformer = toolscache.NewSharedIndexInformer
	}
	options.NewInformer = func(
		lw toolscache.ListerWatcher,
		kind runtime.Object,
		resync time.Duration,
		indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		informer := newInformer(lw, kind, resync, indexers)
		_ = d.account.KeepAllOf(informer, sizeOf) // It does not fail on an informer that has not started.
		return informer
	}
	for object, by := range options.ByObject {
		by.Transform = d.recovering(by.Transform)
		options.ByObject[object] = by
	}
	return cache.New(d.config, options)
}

// recovering returns a transform whose panics are violations. It is the first code of ours that reads an object.
func (d *dialer) recovering(transform toolscache.TransformFunc) toolscache.TransformFunc {
	if transform == nil {
		return nil
	}
	return func(object any) (_ any, err error) {
		defer func() {
			if recovered := recover(); recovered != nil {
				d.account.Violated("an object that cannot be read")
				err = fmt.Errorf("reading an object of the target: %v", recovered)
			}
		}()
		return transform(object)
	}
}

// sizeOf returns about the bytes that are kept of an object. Summaries count as if they had the largest size: there is
// one.
func sizeOf(object any) int64 {
	const fixed = 1 << 10
	if chaperon, ok := object.(*v1alpha1.PodChaperon); ok {
		return fixed + int64(chaperon.ObjectMeta.Size()+chaperon.Status.Size())
	}
	return wire.Default().Object
}

// close closes the connections: the idle ones now, and the others when their requests have ended.
func (d *dialer) close() { d.wire.Close() }
