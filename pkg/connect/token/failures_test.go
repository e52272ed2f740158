package token

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

var errAway = errors.New("the API server is away")

// late is an error of the network that is one of time.
type late struct{}

func (late) Error() string   { return "late" }
func (late) Timeout() bool   { return true }
func (late) Temporary() bool { return false }

func TestWhyARenewalFailed(t *testing.T) {
	of := credential{}
	of.account.Namespace, of.account.Name = "admiralty", "c1"
	accounts := schema.GroupResource{Resource: "serviceaccounts"}
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"forbidden":    {apierrors.NewForbidden(accounts, "c1", nil), "does not let service account admiralty/c1"},
		"unauthorized": {apierrors.NewUnauthorized("no"), "does not accept the token any more"},
		"not found":    {apierrors.NewNotFound(accounts, "c1"), "has no service account admiralty/c1 any more"},
		"no answer":    {context.DeadlineExceeded, "did not answer in time"},
		"a time-out":   {late{}, "did not answer in time"},
		"an address":   {&wire.AddressError{Address: "10.0.0.1", Reason: "in use"}, "10.0.0.1"},
		"refused":      {&url.Error{Op: "Post", URL: "x", Err: refused}, "does not answer: dial: connection refused"},
		"a status":     {apierrors.NewInternalError(errAway), "answers with the status 500"},
		"another one":  {errAway, "did not make a token: the API server is away"},
	} {
		if got := describe(test.err, key(), of); !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestANilRenewerRenewsNothing(t *testing.T) {
	var r *Renewer
	config := &rest.Config{BearerToken: issued(account, start, life)}
	for name, get := range map[string]func(*Renewer) (*rest.Config, error){
		"Attach": func(r *Renewer) (*rest.Config, error) { return r.Attach(t.Context(), key(), config, wire.Dial{}) },
		"Borrow": func(r *Renewer) (*rest.Config, error) { return r.Borrow(t.Context(), key(), config, wire.Dial{}) },
	} {
		if got, err := get(r); got != config || err != nil {
			t.Errorf("%s returns another configuration, and the error %v", name, err)
		}
	}
	r.Keep(key(), config)
	r.Pause(key())
	r.End(key())
	r.Forget(key())
}

func TestAConnectionWaitsUntilTheRenewedTokensAreRead(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newRenewer(w).Attach(ctx, key(), w.config, wire.Dial{}); !errors.Is(err, context.Canceled) {
		t.Errorf("before they are read, the error is %v", err)
	}
}

func TestWhatNobodyCanRenewIsUsedAsItIs(t *testing.T) {
	w := newWorld(t)
	for name, config := range map[string]*rest.Config{
		"an opaque token": {Host: w.target.URL, BearerToken: "opaque"},
		"a token in a file": {
			Host: w.target.URL, BearerToken: issued(account, start, life), BearerTokenFile: "/somewhere",
		},
	} {
		got, err := w.renewer.Attach(t.Context(), key(), config, wire.Dial{})
		if got != config || err != nil {
			t.Errorf("%s: another configuration is used, and the error is %v", name, err)
		}
	}
}

func TestWithoutAnswersAReplicaBorrowsNothing(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	w.renewed()
	for name, answer := range map[string]func() (bool, runtime.Object, error){
		"no answer": func() (bool, runtime.Object, error) { return true, nil, errAway },
		"no token": func() (bool, runtime.Object, error) {
			secret := w.secret()
			for key := range secret.Data {
				secret.Data[key] = []byte("{")
			}
			return true, secret, nil
		},
	} {
		w.answer("get", answer)
		borrowed, err := newRenewer(w).Borrow(t.Context(), key(), w.config, wire.Dial{})
		if err != nil || borrowed != w.config {
			t.Errorf("%s: another configuration is used, and the error is %v", name, err)
		}
	}
}

// TestACertificateThatExpiresIsWarnedOf has a client certificate, which nobody renews.
func TestACertificateThatExpiresIsWarnedOf(t *testing.T) {
	w := newWorld(t)
	config := &rest.Config{Host: w.target.URL}
	config.CertData = certificate(t, start, start.Add(life))
	w.renewer.Keep(key(), config)
	if _, err := w.renewer.Attach(t.Context(), key(), config, wire.Dial{}); err != nil {
		t.Fatal(err)
	}
	w.waitStatus(expires(start.Add(life), ""))
	w.clock.Step(life * 9 / 10)
	event := waittest.Receive(t, "the event", w.recorder.Events)
	if !strings.Contains(event, "the certificate for the target expires") ||
		!strings.Contains(event, "write a kubeconfig with a new one") {
		t.Errorf("the event is %q", event)
	}
}

func TestWhatCannotBeWrittenIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.stop()
	fails := make(chan struct{}, 1)
	fails <- struct{}{}
	w.client = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // It is.
		SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, o client.Object,
			patch client.Patch, options ...client.SubResourcePatchOption,
		) error {
			select {
			case <-fails:
				return errAway
			default:
				return c.SubResource(subresource).Patch(ctx, o, patch, options...)
			}
		},
	})
	w.run()
	w.attach(w.config)
	w.eventually(func() error {
		if len(fails) > 0 {
			return errors.New("nothing was written")
		}
		return nil
	})
	w.eventually(func() error {
		if w.clock.HasWaiters() { // Nobody else waits.
			w.clock.Step(retry)
		}
		target := &v1alpha1.ClusterTarget{}
		if err := w.client.Get(t.Context(), key(), target); err != nil {
			return err
		}
		return expires(start.Add(life), "")(target.Status.Credentials)
	})
}

func TestTokensThatCannotBeDeletedAreTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	w.renewed()
	refused := make(chan struct{})
	w.answer("patch", func() (bool, runtime.Object, error) {
		select {
		case <-refused:
			return false, nil, nil
		default:
			close(refused)
			return true, nil, errAway
		}
	})
	w.renewer.Forget(key())
	waittest.Receive(t, "the refusal", refused)
	w.eventually(func() error {
		w.clock.Step(retry)
		if _, ok := w.stored(); ok {
			return errors.New("the token is still there")
		}
		return nil
	})
}

func TestTheStatusSaysWhyATokenIsNotKept(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"the manager may not": {
			apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tokens", nil),
			"the manager may not patch it; helm upgrade gives it the right",
		},
		"another reason": {errAway, errAway.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.answer("patch", func() (bool, runtime.Object, error) { return true, nil, test.err })
			w.attach(w.config)
			w.clock.Step(life / 2)
			w.waitStatus(expires(w.clock.Now().Add(life), test.want))
		})
	}
}

// TestStrangersAreLookedForUntilTargetsAreListed has a new leader, whose first list of targets fails.
func TestStrangersAreLookedForUntilTargetsAreListed(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	w.renewed()
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key().Name}}
	if err := w.client.Delete(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	w.stop()
	fails := make(chan struct{}, 1)
	fails <- struct{}{}
	w.client = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // It is.
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption,
		) error {
			select {
			case <-fails:
				return errAway
			default:
				return c.List(ctx, list, options...)
			}
		},
	})
	w.run()
	w.eventually(func() error {
		w.clock.Step(retry)
		if _, ok := w.stored(); ok {
			return errors.New("the token is still there")
		}
		return nil
	})
}

func TestATargetThatIsGoneHasNoStatusAndNoEvent(t *testing.T) {
	w := newWorld(t)
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key().Name}}
	if err := w.client.Delete(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	l := newLogin(w.renewer, key(), w.config, fingerprintOf(w.config), wire.Dial{})
	if err := errors.Join(l.writeStatus(t.Context(), l.original), l.warn(t.Context(), l.original)); err != nil {
		t.Error(err)
	}
	if len(w.recorder.Events) > 0 {
		t.Errorf("the event %q is recorded", <-w.recorder.Events)
	}
}

func TestPausesAreJittered(t *testing.T) {
	w := newWorld(t)
	for jitter, want := range map[float64]time.Duration{0: 30 * time.Second, 1: 36 * time.Second} {
		w.renewer.options.Jitter = func() float64 { return jitter }
		l := newLogin(w.renewer, key(), w.config, fingerprintOf(w.config), wire.Dial{})
		l.planFor(l.original)
		l.failed(errAway) // At first, it is tried again soon.
		l.failed(errAway)
		l.failed(errAway)
		if got := l.plan.renewal.Sub(start); got != want {
			t.Errorf("after failures, with the jitter %v, there is a pause of %s, want %s", jitter, got, want)
		}
	}
}

func TestAnOddAnswerIsNoToken(t *testing.T) {
	w := newWorld(t)
	w.target.answer = func() (int, string) { return http.StatusCreated, "opaque" }
	w.attach(w.config)
	w.clock.Step(life / 2)
	w.waitStatus(expires(start.Add(life), "did not make a token: it is no token of a service account"))
}
