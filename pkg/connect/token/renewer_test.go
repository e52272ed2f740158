package token

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

func TestATokenIsRenewedAtHalfOfItsLifeWithoutAnotherConnection(t *testing.T) {
	w := newWorld(t)
	c := w.attach(w.config)
	if w.sends(c) != w.config.BearerToken {
		t.Error("the first token is not the user's")
	}
	w.waitStatus(expires(start.Add(life), ""))
	w.clock.Step(life/2 - time.Second)
	w.renewer.stored() // It looks, and finds nothing to do.
	w.clock.Step(time.Second)
	e := w.renewed()
	if sent := w.sends(c); sent != e.Token || sent == w.config.BearerToken {
		t.Error("the connection does not use the renewed token")
	}
	w.waitStatus(expires(w.clock.Now().Add(life), ""))
	for range 3 {
		w.clock.Step(life / 2)
		w.renewed()
	}
	if asked := w.target.requests(); len(asked) != 4 || asked[3] != int64(life.Seconds()) {
		t.Errorf("asked for tokens of %d seconds, want 4 times %s", asked, life)
	}
}

func TestALongTokenIsRenewedToADay(t *testing.T) {
	w := newWorld(t)
	w.config.BearerToken = issued(account, start, 1000*time.Hour)
	w.attach(w.config)
	w.clock.Step(501 * time.Hour)
	w.renewed()
	if asked := w.target.requests(); len(asked) != 1 || asked[0] != int64((24*time.Hour).Seconds()) {
		t.Errorf("asked for tokens of %d seconds", asked)
	}
}

func TestATokenThatCannotBeRenewedIsReportedWhenItExpires(t *testing.T) {
	w := newWorld(t)
	w.target.answer = func() (int, string) { return http.StatusForbidden, "" }
	w.attach(w.config)
	w.waitStatus(expires(start.Add(life), ""))
	w.clock.Step(life / 2)
	w.waitStatus(expires(start.Add(life), "does not let service account admiralty/c1 make tokens for itself"))
	if len(w.recorder.Events) != 0 {
		t.Error("there is a warning before it is late")
	}
	w.clock.Step(life * 4 / 10)
	w.eventually(func() error {
		select {
		case event := <-w.recorder.Events:
			if !strings.Contains(
				event,
				"Warning CredentialsExpire the token for the target expires at 2030-01-01T00:10:00Z",
			) {
				t.Errorf("the event is %q", event)
			}
			return nil
		default:
			return errors.New("there is no event")
		}
	})
	w.target.mu.Lock()
	w.target.answer = func() (int, string) { return http.StatusCreated, issued(account, w.clock.Now(), life) }
	w.target.mu.Unlock()
	w.eventually(func() error { // The next attempt comes within a minute or so.
		w.clock.Step(time.Second)
		if _, ok := w.stored(); !ok {
			return errors.New("the token is not renewed")
		}
		return nil
	})
	w.waitStatus(func(c *v1alpha1.TargetCredentials) error {
		if c.Problem != "" {
			return errors.New(c.Problem)
		}
		return nil
	})
}

func TestAMissingRightIsReportedLongBeforeTheTokenExpires(t *testing.T) {
	w := newWorld(t)
	w.target.denies = true
	w.config.BearerToken = issued(account, start, 10*life)
	w.attach(w.config)
	w.waitStatus(expires(start.Add(10*life), "does not let service account admiralty/c1 make tokens for itself"))
	w.target.mu.Lock()
	w.target.denies = false
	w.target.mu.Unlock()
	w.eventually(func() error {
		w.clock.Step(time.Second)
		target := &v1alpha1.ClusterTarget{}
		if err := w.client.Get(t.Context(), key(), target); err != nil {
			return err
		}
		if target.Status.Credentials.Problem != "" {
			return errors.New(target.Status.Credentials.Problem)
		}
		return nil
	})
	if len(w.target.requests()) != 0 {
		t.Error("a token was requested")
	}
}

func TestWhatDoesNotExpireIsNotReported(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.waitStatus(expires(start.Add(life), ""))
	forever := rest.CopyConfig(w.config)
	forever.BearerToken = jwt(map[string]any{"sub": account, "iat": start.Unix()})
	if c := w.attach(forever); w.sends(c) != forever.BearerToken {
		t.Error("the token of the kubeconfig is not used")
	}
	w.waitStatus(func(c *v1alpha1.TargetCredentials) error {
		if c != nil {
			return fmt.Errorf("credentials are %+v", c)
		}
		return nil
	})
	if metrics := w.gather(metricExpire); len(metrics) != 0 {
		t.Errorf("metrics are %v", metrics)
	}
}

func TestTheNextLeaderUsesTheRenewedToken(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	e := w.renewed()
	w.clock.Step(life / 4)
	w.run()
	if sent := w.sends(w.attach(w.config)); sent != e.Token {
		t.Error("the next leader uses the user's token")
	}
	w.waitStatus(expires(e.Renewed.Add(life), ""))
	if diff := cmp.Diff(map[string]float64{"c2": 450}, w.gather(metricExpire)); diff != "" {
		t.Error(diff)
	}
}

func TestReplicasThatDoNotLeadBorrowTheRenewedToken(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	renewed := w.renewed()
	other := rest.CopyConfig(w.config)
	other.BearerToken = issued(account, start.Add(time.Second), life)
	for name, test := range map[string]struct {
		config *rest.Config
		want   string
	}{
		"the same kubeconfig": {w.config, renewed.Token},
		"another kubeconfig":  {other, other.BearerToken},
	} {
		t.Run(name, func(t *testing.T) {
			standby := newRenewer(w)
			borrowed, err := standby.Borrow(t.Context(), key(), test.config, wire.Dial{})
			if err != nil || borrowed.BearerToken != test.want {
				t.Errorf("got %v, %v", borrowed, err)
			}
		})
	}
}
