package token

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// idle returns a login without a goroutine.
func (w *world) idle(config *rest.Config) *login {
	w.t.Helper()
	return newLogin(w.renewer, key(), config, fingerprintOf(config), wire.Dial{})
}

func TestALoginIsWokenWhenItsRestChanges(t *testing.T) {
	w := newWorld(t)
	l := w.idle(w.config)
	for reason, wakes := range map[string]bool{"": false, gone: true} {
		l.rest(reason)
		if got := len(l.wake) == 1; got != wakes {
			t.Errorf("with the reason %q, it wakes: %t", reason, got)
		}
		for range len(l.wake) {
			<-l.wake
		}
		l.rest(reason)
		if len(l.wake) > 0 {
			t.Errorf("the reason %q wakes it again", reason)
		}
		l.resting = ""
	}
}

func TestWhenALoginLooksAgain(t *testing.T) {
	w := newWorld(t)
	certified := &rest.Config{}
	certified.CertData = certificate(t, start, start.Add(life))
	forever := &rest.Config{BearerToken: "opaque"}
	for name, test := range map[string]struct {
		config *rest.Config
		change func(l *login)
		after  time.Duration // since the start
		want   time.Duration // from then on
	}{
		"at the renewal":             {w.config, nil, 0, life / 2},
		"while it is paused":         {w.config, func(l *login) { l.resting = gone }, 0, life * 9 / 10},
		"after the warning":          {w.config, func(l *login) { l.resting = gone }, life * 19 / 20, longest},
		"at a certificate's warning": {certified, nil, 0, life * 9 / 10},
		"after a certificate's end":  {certified, nil, 2 * life, longest},
		"for no end":                 {forever, nil, 0, longest},
		"when it was renewed": {w.config, func(l *login) {
			l.current, l.plan.check = l.original, time.Time{}
			l.current.renewed = start
		}, 0, life / 2},
		"when the right is to be looked at": {
			w.config, func(l *login) { l.plan.check = start.Add(time.Minute) }, 0, time.Minute,
		},
		"after a failure": {w.config, func(l *login) {
			l.plan.failures, l.plan.check = 1, start.Add(time.Minute)
		}, 0, life / 2},
	} {
		l := w.idle(test.config)
		l.planFor(l.original)
		l.plan.check = start.Add(longest)
		if test.change != nil {
			test.change(l)
		}
		now := start.Add(test.after)
		if got := l.next(l.now(), now, false).Sub(now); got != test.want {
			t.Errorf("%s, it looks after %s, want %s", name, got, test.want)
		}
		if got := l.next(l.now(), now, true).Sub(now); got != min(test.want, retry) {
			t.Errorf("%s, with something pending, it looks after %s", name, got)
		}
	}
}

func TestWhatIsPendingIsTriedSoon(t *testing.T) {
	w := newWorld(t)
	w.stop()
	failures := 0
	w.client = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // It is.
		Get: func(ctx context.Context, c client.WithWatch, name client.ObjectKey, o client.Object,
			options ...client.GetOption,
		) error {
			if failures > 0 {
				failures--
				return errAway
			}
			return c.Get(ctx, name, o, options...)
		},
	})
	w.renewer = newRenewer(w)
	config := &rest.Config{}
	config.CertData = certificate(t, start, start.Add(life))
	look := func(l *login) time.Duration { return l.act(t.Context()).Sub(w.clock.Now()) }
	l := w.idle(config)
	if failures = 1; look(l) != retry {
		t.Error("the status is not written again")
	}
	if got := look(l); got != life*9/10 {
		t.Errorf("with nothing to do, it looks after %s", got)
	}
	w.clock.Step(life * 9 / 10)
	if failures = 1; look(l) != retry || len(w.recorder.Events) > 0 {
		t.Error("the event is not recorded again")
	}
	for range 2 {
		if got := look(l); got != longest {
			t.Errorf("after the warning, it looks after %s", got)
		}
	}
	if len(w.recorder.Events) != 1 {
		t.Errorf("there are %d events", len(w.recorder.Events))
	}
	if event := <-w.recorder.Events; strings.Contains(event, "it is not renewed") {
		t.Errorf("the event of what nobody renews is %q", event)
	}
}

func TestWhoseRightToRenewIsLookedAt(t *testing.T) {
	w := newWorld(t)
	opaque := &rest.Config{Host: w.config.Host, BearerToken: "opaque"}
	opaque.Insecure = true
	for name, test := range map[string]struct {
		config *rest.Config
		change func(l *login)
		asks   bool
	}{
		"at first":                {w.config, func(*login) {}, true},
		"while it is paused":      {w.config, func(l *login) { l.resting = gone }, false},
		"of what cannot be":       {opaque, func(*login) {}, false},
		"of what was renewed":     {w.config, func(l *login) { l.current.renewed = start }, false},
		"after a failure":         {w.config, func(l *login) { l.plan.failures = 1 }, false},
		"before it is time again": {w.config, func(l *login) { l.plan.check = start.Add(1) }, false},
		"when it is time again":   {w.config, func(l *login) { l.plan.check = start }, true},
	} {
		l := w.idle(test.config)
		test.change(l)
		before := w.target.all()
		l.check(t.Context())
		if got := w.target.all() > before; got != test.asks {
			t.Errorf("%s, the target is asked: %t", name, got)
		}
	}
}

func TestAKubeconfigHasOneLogin(t *testing.T) {
	w := newWorld(t)
	other := rest.CopyConfig(w.config)
	other.BearerToken = issued(account, start.Add(time.Second), life)
	<-w.renewer.ready
	first := w.renewer.loginOf(key(), w.config, wire.Dial{})
	if w.renewer.loginOf(key(), w.config, wire.Dial{}) != first {
		t.Error("the same kubeconfig has another login")
	}
	if w.renewer.loginOf(key(), other, wire.Dial{}) == first {
		t.Error("another kubeconfig has the same login")
	}
}

func TestOnlyATargetThatMayHaveAnEntryIsRemembered(t *testing.T) {
	w := newWorld(t)
	id := translate.TargetID(key())
	remembered := func() bool {
		w.renewer.mu.Lock()
		defer w.renewer.mu.Unlock()
		w.renewer.outdate(key(), "")
		_, known := w.renewer.current[id]
		return known
	}
	if remembered() {
		t.Error("a target without a token is remembered")
	}
	w.attach(w.config)
	w.clock.Step(life / 2)
	w.renewed()
	w.stop()
	w.run() // The next leader knows only what is stored.
	<-w.renewer.ready
	if !remembered() {
		t.Error("a target with a stored token is not remembered")
	}
	w.renewer.mu.Lock()
	w.renewer.current[id] = ""
	w.renewer.mu.Unlock()
	if err := w.renewer.store.remove(t.Context(), []string{w.key()}); err != nil {
		t.Fatal(err)
	}
	if !remembered() {
		t.Error("a target that is known is forgotten")
	}
}

func TestWhatIsRemovedGivesItsShareBack(t *testing.T) {
	w := newWorld(t)
	<-w.renewer.ready
	s := &w.renewer.store.shares
	if err := s.take("a.1", "a", shareOfNamespace, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.renewer.store.remove(t.Context(), []string{"a.1"}); err != nil {
		t.Fatal(err)
	}
	if err := s.take("a.2", "a", shareOfNamespace, nil); err != nil {
		t.Error(err)
	}
}

func TestTheBoundsOfShares(t *testing.T) {
	s := &shares{}
	for _, namespace := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		if err := s.take(namespace, namespace, shareOfNamespace, nil); err != nil {
			t.Fatal(err)
		}
	}
	clusterTarget := map[string][]byte{"c": []byte(`{"target":"c2","token":"` + strings.Repeat("a", maxLength) + `"}`)}
	if err := s.take("h", "h", shareOfNamespace, clusterTarget); err != nil {
		t.Errorf("the whole share cannot be taken beside a ClusterTarget: %v", err)
	}
	if s.take("i", "i", 1, nil) == nil {
		t.Error("there is more than the share")
	}
}
