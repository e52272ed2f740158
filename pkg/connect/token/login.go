package token

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// login is one kubeconfig of a target, with the token that was made from it last. Its goroutine renews the token.
type login struct {
	renewer     *Renewer
	target      types.NamespacedName
	config      *rest.Config
	fingerprint string
	// key is that of its entry in the store.
	key string
	// original is the credential of the kubeconfig.
	original credential
	stop     context.CancelFunc
	// wake has room for one: the goroutine has to look.
	wake chan struct{}

	mu      sync.Mutex // guards the fields below
	dial    wire.Dial
	current credential
	// resting is why the token is not renewed, or empty.
	resting string

	plan plan // used by the goroutine alone
}

// plan is what the goroutine of a login does next, and why.
type plan struct {
	// renewal is when to renew the token, and failures is the number of failed attempts in a row.
	renewal  time.Time
	failures int
	// check is when to look whether the token can be renewed.
	check time.Time
	// of is the credential that the plan is about.
	of credential
	// warned says that the event about the end was recorded.
	warned bool
	// problem is why the last attempt failed, and unsaved is why the token is not in the Secret, or empty.
	problem, unsaved string
}

func newLogin(
	r *Renewer, target types.NamespacedName, config *rest.Config, fingerprint string, rules wire.Dial,
) *login {
	original := credentialOf(config, r.options.Clock.Now())
	return &login{
		renewer: r, target: target, config: config, fingerprint: fingerprint,
		key: keyOf(translate.TargetID(target), fingerprint), original: original, stop: func() {},
		wake: make(chan struct{}, 1), dial: rules, current: original,
	}
}

// Token returns the newest token, for the transports of the target.
func (l *login) Token() (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: l.now().token}, nil
}

// configure returns the kubeconfig's configuration, whose requests have the newest token.
func (l *login) configure() *rest.Config {
	config := rest.CopyConfig(l.config)
	config.BearerToken = ""
	config.Wrap(transport.TokenSourceWrapTransport(l))
	return config
}

// now returns the credential of now.
func (l *login) now() credential {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// follow sets the rules for connections.
func (l *login) follow(rules wire.Dial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dial = rules
}

// rest interrupts the renewal for a reason, or continues it if the reason is empty.
func (l *login) rest(reason string) {
	l.mu.Lock()
	changed := l.resting != reason
	l.resting = reason
	l.mu.Unlock()
	if changed {
		l.poke()
	}
}

func (l *login) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// adopt takes the renewed token of the Secret, if it belongs to this kubeconfig and lives longer. An earlier manager
// may have written it.
func (l *login) adopt() {
	stored, ok := l.renewer.store.get(l.key).replaces(l.original, l.fingerprint)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if stored.renewed.After(l.current.renewed) {
		l.current = stored
	}
}

// run renews the token, and reports the state, until ctx ends.
func (l *login) run(ctx context.Context) {
	clock := l.renewer.options.Clock
	for ctx.Err() == nil {
		l.adopt()
		next := l.act(ctx)
		timer := clock.NewTimer(next.Sub(clock.Now()))
		if clock.Now().Before(next) { // The clock may have gone on before there was a timer.
			select {
			case <-ctx.Done():
			case <-l.wake:
			case <-timer.C():
			}
		}
		timer.Stop()
	}
}

// act does everything that is due, and returns when to look again.
func (l *login) act(ctx context.Context) time.Time {
	l.planFor(l.now())
	if l.isDue() {
		l.renew(ctx)
		l.planFor(l.now())
	}
	l.check(ctx)
	pending := l.save(ctx) != nil
	credential := l.now()
	now := l.renewer.options.Clock.Now()
	if late := credential.late(); !credential.expires.IsZero() && !now.Before(late) && !l.plan.warned {
		l.plan.warned = l.warn(ctx, credential) == nil
		pending = pending || !l.plan.warned
	}
	if err := l.writeStatus(ctx, credential); err != nil && ctx.Err() == nil {
		l.renewer.options.Logger.Error(err, "Cannot write when credentials expire", "target", l.name())
		pending = true
	}
	return l.next(credential, now, pending)
}

// planFor begins anew with another credential.
func (l *login) planFor(c credential) {
	if l.plan.of.token == c.token && !l.plan.renewal.IsZero() {
		return
	}
	l.plan = plan{of: c, renewal: c.due(l.renewer.options.Jitter()), unsaved: l.plan.unsaved}
}

func (l *login) isDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resting == "" && l.current.renewable() && !l.renewer.options.Clock.Now().Before(l.plan.renewal)
}

// save sees to it that the Secret has a renewed token. It returns an error if it has not, and should.
func (l *login) save(ctx context.Context) error {
	l.mu.Lock()
	current, resting := l.current, l.resting
	l.mu.Unlock()
	l.plan.unsaved = ""
	if current.renewed.IsZero() || resting != "" || l.renewer.store.get(l.key).Token == current.token {
		return nil
	}
	err := l.renewer.store.put(ctx, l.key, entry{
		Target: l.name(), Fingerprint: l.fingerprint, Token: current.token, Renewed: current.renewed,
	})
	if err != nil && ctx.Err() == nil {
		l.plan.unsaved = "the renewed token is lost when the manager restarts: Secret " +
			l.renewer.options.Secret.String() + ": " + wire.Shorten(err.Error(), maxText)
		l.renewer.options.Logger.Error(err, "Cannot keep a renewed token", "target", l.name(),
			"secret", l.renewer.options.Secret)
	}
	return err
}

// next returns when to look again: at the renewal, at the warning, or soon if something is pending.
func (l *login) next(c credential, now time.Time, pending bool) time.Time {
	next := now.Add(longest)
	soon := func(at time.Time) {
		if at.Before(next) {
			next = at
		}
	}
	l.mu.Lock()
	resting := l.resting != ""
	l.mu.Unlock()
	if c.renewable() && !resting {
		soon(l.plan.renewal)
		if c.renewed.IsZero() && l.plan.failures == 0 {
			soon(l.plan.check)
		}
	}
	if !c.expires.IsZero() && now.Before(c.late()) {
		soon(c.late())
	}
	if pending {
		soon(now.Add(retry))
	}
	return next
}

// problem says why the token is not renewed or not kept, or is empty.
func (l *login) problem() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.resting, l.plan.problem, l.plan.unsaved)
}

func (l *login) name() string { return targetkind.Name(l.target) }
