package token

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestARenewedTokenGoesWithItsTarget(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"no target": func(w *world) { w.renewer.Forget(key()) },
		"no target when the next leader starts": func(w *world) {
			if err := w.client.Delete(w.t.Context(), &v1alpha1.ClusterTarget{
				ObjectMeta: metav1.ObjectMeta{Name: key().Name},
			}); err != nil {
				t.Fatal(err)
			}
			w.stop()
			w.run()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.attach(w.config)
			w.clock.Step(life / 2)
			w.renewed()
			change(w)
			w.waitStored(false)
			w.expectNoRenewal()
			w.waitStored(false)
		})
	}
}

// TestOnlyTokensOfTargetsThatDoNotExistAreStrangers has a new leader, which has connected to nothing yet.
func TestOnlyTokensOfTargetsThatDoNotExistAreStrangers(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	w.renewed()
	w.stop()
	w.run()
	<-w.renewer.ready
	stranger := func() bool {
		if err := w.renewer.outdateStrangers(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.renewer.mu.Lock()
		defer w.renewer.mu.Unlock()
		current, known := w.renewer.current[translate.TargetID(key())]
		return known && current == ""
	}
	if stranger() {
		t.Error("the token of a target that exists is one of a stranger")
	}
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key().Name}}
	if err := w.client.Delete(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if !stranger() {
		t.Error("the token of a target that does not exist stays")
	}
}

// expectNoRenewal lets a quarter of the token's life pass.
func (w *world) expectNoRenewal() {
	w.t.Helper()
	asked := len(w.target.requests())
	w.clock.Step(life / 4)
	w.renewer.stored()
	if len(w.target.requests()) != asked {
		w.t.Error("the renewal goes on")
	}
}

// losses are changes of the user's Secret that may be mistakes.
func losses() map[string]func(w *world) {
	other := func(w *world) *rest.Config {
		config := rest.CopyConfig(w.config)
		config.BearerToken = issued(account, start, 20*life)
		return config
	}
	return map[string]func(w *world){
		"another kubeconfig": func(w *world) { w.renewer.Keep(key(), other(w)) },
		"another kubeconfig that is connected": func(w *world) {
			config := other(w)
			if sent := w.sends(w.attach(config)); sent != config.BearerToken {
				w.t.Error("the renewed token of another kubeconfig is used")
			}
		},
		"no Secret": func(w *world) { w.renewer.End(key()) },
	}
}

func TestAKubeconfigThatIsPutBackHasItsRenewedToken(t *testing.T) {
	for name, lose := range losses() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.attach(w.config)
			w.clock.Step(life / 2)
			e := w.renewed()
			lose(w)
			w.expectNoRenewal()
			w.run() // The next leader knows only what is stored.
			lose(w)
			w.clock.Step(life/4 - time.Second) // The first token is about to expire.
			w.renewer.stored()
			if sent := w.sends(w.attach(w.config)); sent != e.Token {
				t.Error("the renewed token is not used")
			}
			w.clock.Step(time.Second)
			w.renewed()
		})
	}
}

func TestTheTokenOfAFormerKubeconfigGoesWhenItExpires(t *testing.T) {
	for name, lose := range losses() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.attach(w.config)
			w.clock.Step(life / 2)
			w.renewed()
			lose(w)
			w.expectNoRenewal()
			w.waitStored(true)
			w.eventually(func() error { // The sweep may have set its timer a step ago.
				w.clock.Step(life / 4)
				if _, ok := w.stored(); ok {
					return errors.New("the token is still there")
				}
				return nil
			})
			if passed := w.clock.Since(start); passed < 3*life/2 {
				t.Errorf("it went after %s, before it expired", passed)
			}
		})
	}
}

func TestFewTokensOfFormerKubeconfigsAreKept(t *testing.T) {
	w := newWorld(t)
	r := newRenewer(w)
	data := map[string][]byte{}
	add := func(fingerprint string, age, life time.Duration) string {
		raw, err := json.Marshal(entry{
			Fingerprint: fingerprint, Token: issued(account, start, life), Renewed: start.Add(-age),
		})
		if err != nil {
			t.Fatal(err)
		}
		data[keyOf("id", fingerprint)] = raw
		return keyOf("id", fingerprint)
	}
	r.current["id"] = "now"
	add("now", 9*time.Hour, time.Hour)
	add("last", 0, time.Hour)
	add("earlier", 30*time.Minute, time.Hour)
	want := []string{
		add("expired", time.Hour, time.Hour), add("one too many", 40*time.Minute, time.Hour),
		add("of another year", 24*time.Hour, 9000*time.Hour), "id",
	}
	data["id"] = data[keyOf("id", "last")] // of an earlier version
	keys, next := r.outdated(data)
	slices.Sort(keys)
	slices.Sort(want)
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Error(diff)
	}
	if wanted := start.Add(30 * time.Minute); !next.Equal(wanted) {
		t.Errorf("the next one is to go at %s, want %s", next, wanted)
	}
}

func TestABrokenSecretInterruptsTheRenewal(t *testing.T) {
	w := newWorld(t)
	c := w.attach(w.config)
	w.clock.Step(life / 2)
	e := w.renewed()
	w.renewer.Pause(key())
	w.clock.Step(life / 2)
	w.waitStatus(expires(e.Renewed.Add(life), "cannot be used"))
	if sent := w.sends(c); sent != e.Token || len(w.target.requests()) != 1 {
		t.Error("the renewal goes on, or the token is not used any more")
	}
	w.renewer.Keep(key(), w.config)
	w.renewed()
}

func TestAConnectionThatGoesOnWithoutASecretDoesNotContinueTheRenewal(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	e := w.renewed()
	w.renewer.End(key())
	c := w.attachAgain(w.config)
	w.clock.Step(life / 2)
	w.waitStatus(expires(e.Renewed.Add(life), "Secret is gone"))
	if sent := w.sends(c); sent != e.Token || len(w.target.requests()) != 1 {
		t.Error("the renewal goes on, or the token is not used any more")
	}
	w.renewer.Keep(key(), w.config) // The Secret is there again.
	w.renewed()
}

func TestTokensOfAnEmptiedSecretAreWrittenAgain(t *testing.T) {
	w := newWorld(t)
	w.attach(w.config)
	w.clock.Step(life / 2)
	e := w.renewed()
	if _, err := w.secrets.CoreV1().Secrets(secretName().Namespace).Update(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secretName().Namespace, Name: secretName().Name},
	}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if again := w.waitStored(true); again.Token != e.Token {
		t.Error("it is another token")
	}
}

func TestWithoutASecretTokensAreRenewedInMemory(t *testing.T) {
	w := newWorld(t)
	if err := w.secrets.CoreV1().Secrets(secretName().Namespace).Delete(
		t.Context(), secretName().Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c := w.attach(w.config)
	w.clock.Step(life / 2)
	w.waitStatus(expires(w.clock.Now().Add(life), "is lost when the manager restarts: Secret admiralty/tokens"))
	if w.sends(c) == w.config.BearerToken {
		t.Error("the renewed token is not used")
	}
}

func TestATokenOfAnotherAccountIsNotUsed(t *testing.T) {
	w := newWorld(t)
	w.target.answer = func() (int, string) {
		return http.StatusCreated, issued("system:serviceaccount:admiralty:c9", w.clock.Now(), life)
	}
	c := w.attach(w.config)
	w.clock.Step(life / 2)
	w.waitStatus(expires(start.Add(life), "a token of another account (admiralty/c9)"))
	if w.sends(c) != w.config.BearerToken {
		t.Error("it is used")
	}
}
