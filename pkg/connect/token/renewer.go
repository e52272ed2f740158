package token

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// retry is the time until the next attempt to write to the source's own API server.
	retry = 10 * time.Second
	// gone is why a token rests.
	gone = "the target's Secret is gone, or has another kubeconfig"
	// noKubeconfig is in place of a fingerprint, and equals none.
	noKubeconfig = "none"
)

// Options of New. All are required.
type Options struct {
	// Client reads ClusterTargets and Targets from the manager's cache, and patches their statuses.
	Client client.Client
	// APIReader lists ClusterTargets and Targets.
	APIReader client.Reader
	// Secrets has the rights to get, list, watch and patch the Secret.
	Secrets kubernetes.Interface
	// Secret is the Secret of renewed tokens, in the source.
	Secret types.NamespacedName
	// Lead is the right to lead. No token is asked for after its end. It may be nil.
	Lead wire.Right
	// Clock times renewals.
	Clock clock.WithTicker
	// Jitter returns random numbers from 0 to 1, so that not all tokens are renewed at once.
	Jitter   func() float64
	Recorder events.EventRecorder
	Logger   logr.Logger
	// Metrics registers the metric of this package.
	Metrics prometheus.Registerer
}

// Renewer renews the tokens of targets. It is a runnable of a controller-runtime manager, and must run on the leader
// only. All methods are safe for concurrent use. A nil Renewer renews nothing.
type Renewer struct {
	options Options
	store   *store
	// ready is closed when the renewed tokens have been read, or cannot be.
	ready chan struct{}
	// dirty has room for one: entries of the store may have to go.
	dirty chan struct{}

	mu     sync.Mutex // guards the fields below
	life   context.Context
	logins map[types.NamespacedName]*login
	// current has the fingerprints of the targets' kubeconfigs, by ID of the target. It is noKubeconfig for a target
	// that has none now, and empty for a target that is gone. It stays so, because what we see of the Secret may lag
	// behind a token that was just written.
	current map[string]string
}

// New returns a Renewer, which does nothing before Start.
func New(options Options) (*Renewer, error) {
	r := &Renewer{
		options: options,
		ready:   make(chan struct{}),
		dirty:   make(chan struct{}, 1),
		logins:  map[types.NamespacedName]*login{},
		current: map[string]string{},
	}
	r.store = newStore(options.Secrets, options.Secret, r.stored)
	if err := options.Metrics.Register(newCollector(r)); err != nil {
		return nil, fmt.Errorf("registering the metric of tokens: %w", err)
	}
	return r, nil
}

// Start runs until ctx ends.
func (r *Renewer) Start(ctx context.Context) error {
	r.mu.Lock()
	r.life = ctx
	r.mu.Unlock()
	stopped := make(chan struct{})
	go func() { r.store.run(ctx); close(stopped) }()
	r.sweep(ctx)
	<-stopped
	return nil
}

// stored is called after each change of the Secret. Each login looks whether its token is still there.
func (r *Renewer) stored() {
	r.soil()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.logins {
		l.poke()
	}
}

func (r *Renewer) soil() {
	select {
	case r.dirty <- struct{}{}:
	default:
	}
}

// Attach returns the configuration with which to connect to a target. Its requests have the newest token. It waits
// until the renewed tokens have been read. The token is renewed from now on, with connections that keep to the rules,
// as long as the target's Secret has this kubeconfig: a connection may go on without it.
func (r *Renewer) Attach(
	ctx context.Context, target types.NamespacedName, config *rest.Config, rules wire.Dial,
) (*rest.Config, error) {
	if r == nil {
		return config, nil
	}
	select {
	case <-r.ready:
	case <-ctx.Done():
		return nil, fmt.Errorf("reading renewed tokens: %w", ctx.Err())
	}
	l := r.loginOf(target, config, rules)
	if !l.original.renewable() {
		return config, nil
	}
	return l.configure(), nil
}

// Borrow returns the configuration with which a replica that does not lead connects to a target. Its requests have the
// token that is the newest now. Nothing is renewed.
func (r *Renewer) Borrow(
	ctx context.Context, target types.NamespacedName, config *rest.Config, _ wire.Dial,
) (*rest.Config, error) {
	if r == nil {
		return config, nil
	}
	fingerprint := fingerprintOf(config)
	stored, err := r.store.read(ctx, keyOf(translate.TargetID(target), fingerprint))
	if err != nil {
		return config, nil //nolint:nilerr // The kubeconfig's own token may do.
	}
	original := credentialOf(config, r.options.Clock.Now())
	if renewed, ok := stored.replaces(original, fingerprint); ok {
		config = rest.CopyConfig(config)
		config.BearerToken, config.BearerTokenFile = renewed.token, ""
	}
	return config, nil
}

// loginOf returns the login for a kubeconfig, which replaces that of another one.
func (r *Renewer) loginOf(target types.NamespacedName, config *rest.Config, rules wire.Dial) *login {
	id, fingerprint := translate.TargetID(target), fingerprintOf(config)
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.logins[target]; ok {
		if l.fingerprint == fingerprint {
			l.follow(rules)
			return l
		}
		l.stop()
	}
	if _, known := r.current[id]; !known {
		r.current[id] = fingerprint
		r.soil()
	}
	l := newLogin(r, target, config, fingerprint, rules)
	if r.current[id] != fingerprint {
		l.resting = gone
	}
	l.adopt()
	ctx, stop := context.WithCancel(r.life)
	l.stop = stop
	r.logins[target] = l
	go l.run(ctx)
	return l
}

// Keep says which kubeconfig the target's Secret has. The token of another kubeconfig is not renewed any more. It stays
// in the manager's Secret until it expires, because the change may be a mistake: the first token of that kubeconfig may
// have expired long ago.
func (r *Renewer) Keep(target types.NamespacedName, config *rest.Config) {
	if r == nil {
		return
	}
	fingerprint := fingerprintOf(config)
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := translate.TargetID(target); r.current[id] != fingerprint {
		r.current[id] = fingerprint
		r.soil()
	}
	l, ok := r.logins[target]
	switch {
	case !ok:
	case l.fingerprint == fingerprint:
		l.rest("")
	default:
		l.stop()
		delete(r.logins, target)
	}
}

// Pause interrupts the renewal, because the target's Secret has no kubeconfig that can be used.
func (r *Renewer) Pause(target types.NamespacedName) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.logins[target]; ok {
		l.rest("the kubeconfig in the target's Secret cannot be used")
	}
}

// End ends the renewal, because the target's Secret is gone. The renewed token stays in the manager's Secret until it
// expires, and a connection may go on so long.
func (r *Renewer) End(target types.NamespacedName) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outdate(target, noKubeconfig)
	if l, ok := r.logins[target]; ok {
		l.rest(gone)
	}
}

// Forget ends the renewal, because the target is gone, and deletes its renewed tokens.
func (r *Renewer) Forget(target types.NamespacedName) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outdate(target, "")
	if l, ok := r.logins[target]; ok {
		l.stop()
		delete(r.logins, target)
	}
}

// outdate sets what a target has in place of a kubeconfig, if it may have an entry. The caller holds mu.
func (r *Renewer) outdate(target types.NamespacedName, current string) {
	id := translate.TargetID(target)
	if _, known := r.current[id]; known || r.store.has(id) {
		r.current[id] = current
		r.soil()
	}
}

// expiries returns when credentials expire, by name of the target.
func (r *Renewer) expiries() map[string]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]time.Time{}
	for target, l := range r.logins {
		if expires := l.now().expires; !expires.IsZero() {
			all[targetkind.Name(target)] = expires
		}
	}
	return all
}
