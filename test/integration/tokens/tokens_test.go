package tokens

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestATokenIsRenewedWithoutAnotherEngagement(t *testing.T) {
	w := newWorld(t, true)
	before := env.Get(t, c1, &corev1.Secret{ObjectMeta: env.Meta(w.namespace, "c2")})
	engaged := w.connection()
	sent := map[string]bool{w.sends(engaged): true}
	for range 3 {
		w.renew()
		sent[w.sends(engaged)] = true
	}
	if len(sent) != 4 {
		t.Errorf("the connection sent %d tokens, want 4: %v", len(sent), sent)
	}
	if w.connection() != engaged {
		t.Error("the target was engaged anew")
	}
	// A watch that began with the first token still brings events.
	chaperon := env.Chaperon(env.Namespace(t, nil, c2), "web", "id-of-c1", w.key)
	env.CreateForTest(t, c2, chaperon)
	env.Eventually(t, func(ctx context.Context) error {
		list := &v1alpha1.PodChaperonList{}
		if err := engaged.Client.List(ctx, list); err != nil || len(list.Items) != 1 {
			return fmt.Errorf("%d PodChaperons are seen (%w)", len(list.Items), err)
		}
		return nil
	})
	after := env.Get(t, c1, &corev1.Secret{ObjectMeta: env.Meta(w.namespace, "c2")})
	env.ExpectEqual(t, "the user's Secret", before.ResourceVersion, after.ResourceVersion)
}

func TestTheNextLeaderUsesTheRenewedToken(t *testing.T) {
	w := newWorld(t, true)
	w.renew()
	renewed := w.sends(w.connection())
	w.stop()
	w.start()
	env.Eventually(t, func(context.Context) error {
		if _, ok := w.registry.ByKey(w.key); !ok {
			return errors.New("not engaged")
		}
		return nil
	})
	env.ExpectEqual(t, "credential", renewed, w.sends(w.connection()))
}

func TestARestoredSourceWhoseTokensExpired(t *testing.T) {
	w := newWorld(t, true)
	secret := &corev1.Secret{ObjectMeta: env.Meta(w.namespace, "c2")}
	w.stop()
	env.Change(t, c1, secret, func(s *corev1.Secret) { // The token of long ago is not valid any more.
		s.Data["config"] = []byte(strings.Replace(string(s.Data["config"]), "token: ey", "token: eyJ9", 1))
	})
	w.start()
	w.waitConnected(v1alpha1.ReasonUnauthorized)
	env.Change(t, c1, secret, func(s *corev1.Secret) { s.Data["config"] = w.kubeconfig(life) }) // connect --renew
	w.waitConnected(v1alpha1.ReasonConnected)
	w.renew()
}

func TestARenewedTokenGoesWithTheTarget(t *testing.T) {
	for name, remove := range map[string]func(w *world){
		"the target": func(w *world) { env.Delete(w.t, c1, w.target()) },
		"the target while no manager runs": func(w *world) {
			w.stop()
			env.Delete(w.t, c1, w.target())
			w.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			w.renew()
			remove(w)
			env.Eventually(t, func(context.Context) error {
				if w.stored() != "" {
					return errors.New("the token is still there")
				}
				return nil
			})
		})
	}
}

// The token of the Secret may have expired long ago when the Secret is put back. The renewed one still works.
func TestASecretThatIsPutBackHasItsRenewedToken(t *testing.T) {
	for name, test := range map[string]struct {
		lose, putBack func(w *world, original *corev1.Secret)
	}{
		"it was deleted": {
			func(w *world, original *corev1.Secret) {
				w.stop() // The manager would go on with what it knows.
				env.Delete(w.t, c1, original)
				w.start()
				w.waitConnected(v1alpha1.ReasonSecretNotFound)
			},
			func(w *world, original *corev1.Secret) {
				again := &corev1.Secret{ObjectMeta: env.Meta(w.namespace, original.Name), Data: original.Data}
				env.CreateForTest(w.t, c1, again)
			},
		},
		"it had another kubeconfig": {
			func(w *world, original *corev1.Secret) {
				before, changed := w.connection(), original.DeepCopy()
				env.Change(w.t, c1, changed, func(s *corev1.Secret) { s.Data["config"] = w.kubeconfig(2 * life) })
				env.Eventually(w.t, func(context.Context) error {
					if now, ok := w.registry.ByKey(w.key); !ok || now == before {
						return errors.New("the other kubeconfig is not in use")
					}
					return nil
				})
			},
			func(w *world, original *corev1.Secret) {
				changed := original.DeepCopy()
				env.Change(w.t, c1, changed, func(s *corev1.Secret) { s.Data = original.Data })
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			w.renew()
			renewed := w.sends(w.connection())
			original := env.Get(t, c1, &corev1.Secret{ObjectMeta: env.Meta(w.namespace, "c2")})
			test.lose(w, original)
			test.putBack(w, original)
			w.waitSends(renewed)
		})
	}
}

func TestWithoutTheRightTheStatusSaysSo(t *testing.T) {
	w := newWorld(t, false)
	says := func(text string) func(*v1alpha1.TargetCredentials) error {
		return func(c *v1alpha1.TargetCredentials) error {
			if !strings.Contains(c.Problem, "does not let service account "+w.account.String()) ||
				!strings.Contains(c.Problem, text) {
				return fmt.Errorf("the problem is %q", c.Problem)
			}
			return nil
		}
	}
	w.waitCredentials(says("")) // The source asks at once whether it has the right.
	w.clock.Step(untilDue)
	w.waitCredentials(says("cannot create resource"))
	w.clock.Step(life * 4 / 10)
	env.WaitForEvent(t, c1, w.target(), v1alpha1.ReasonCredentialsExpire,
		"kubectl multicluster connect "+w.key.Name+" --target-context CONTEXT --renew")
}

func TestRevocationEndsTheConnection(t *testing.T) {
	w := newWorld(t, true)
	w.renew()
	env.Delete(t, c2, &corev1.ServiceAccount{ObjectMeta: env.Meta(w.account.Namespace, w.account.Name)})
	w.waitConnected(v1alpha1.ReasonUnauthorized)
	before := w.stored()
	w.clock.Step(untilDue)
	w.waitCredentials(func(c *v1alpha1.TargetCredentials) error {
		if !strings.Contains(c.Problem, "connect") {
			return fmt.Errorf("the problem is %q", c.Problem)
		}
		return nil
	})
	env.ExpectEqual(t, "the last token", before, w.stored())
}

// The policy caps the tokens that a source makes, whoever is named in the (Cluster)Source.
func TestASourceMakesNoTokenOfAYear(t *testing.T) {
	w := newWorld(t, true)
	user := env.ServiceAccountUser(w.account.Namespace, w.account.Name)
	c2.Grant(t, user, "", env.Rule(v1alpha1.GroupName, []string{"podchaperons"}, "act-as-source"))
	request := func(ctx context.Context, life time.Duration) error {
		return env.ClientFor(t, w.connection().Config).SubResource("token").Create(ctx,
			&corev1.ServiceAccount{ObjectMeta: env.Meta(w.account.Namespace, w.account.Name)},
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
				ExpirationSeconds: ptr.To(int64(life.Seconds())),
			}})
	}
	env.Must(t, request(t.Context(), 24*time.Hour))
	env.Eventually(t, func(ctx context.Context) error { // API servers learn of policies by a watch.
		err := request(ctx, 365*24*time.Hour)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "tokens of a day at most") {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
}
