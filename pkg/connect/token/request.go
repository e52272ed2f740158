package token

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/version"
)

const (
	// maxText bounds the texts of a target, in bytes.
	maxText = 256
	// recheck is the time until the next look whether a token can be renewed.
	recheck = 5 * time.Minute
)

// renew replaces the token by a new one, or plans the next attempt.
func (l *login) renew(ctx context.Context) {
	token, err := l.request(ctx)
	var renewed credential
	if err == nil {
		renewed, err = renewedAt(token, l.renewer.options.Clock.Now())
	}
	if err == nil && renewed.account != l.original.account {
		err = fmt.Errorf("the target sent a token of another account (%s)",
			wire.Shorten(renewed.account.String(), maxText))
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		l.failed(err)
		return
	}
	l.mu.Lock()
	l.current = renewed
	l.mu.Unlock()
	l.renewer.options.Logger.Info("Renewed a token", "target", l.name(), "expires", renewed.expires)
}

// request asks the target for a token.
func (l *login) request(ctx context.Context) (string, error) {
	account, seconds := l.original.account, int64(l.original.lifeOfNext()/time.Second)
	token := ""
	err := l.connected(ctx, func(ctx context.Context, config *rest.Config, c *http.Client) error {
		api, err := corev1.NewForConfigAndClient(config, c)
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		answer, err := api.ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name,
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}},
			metav1.CreateOptions{})
		if err != nil {
			return err
		}
		token = answer.Status.Token
		return nil
	})
	return token, err
}

// mayRenew asks the target whether the source has the right to renew its token.
func (l *login) mayRenew(ctx context.Context) (allowed bool, err error) {
	account := l.original.account
	err = l.connected(ctx, func(ctx context.Context, config *rest.Config, c *http.Client) error {
		api, err := authorizationclient.NewForConfigAndClient(config, c)
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		review, err := api.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: account.Namespace, Name: account.Name,
					Verb: "create", Resource: "serviceaccounts", Subresource: "token",
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		allowed = review.Status.Allowed
		return nil
	})
	return allowed, err
}

// connected calls do with a connection of its own to the target, which may be engaged or not.
func (l *login) connected(
	ctx context.Context, do func(context.Context, *rest.Config, *http.Client) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	l.mu.Lock()
	rules := l.dial
	l.mu.Unlock()
	config := l.configure()
	config.QPS = -1
	config.UserAgent = "multicluster-scheduler/" + version.Version
	limits := wire.Default()
	connection, err := wire.Harden(config, wire.Options{
		Limits: limits, Account: wire.NewAccount(limits, clock.RealClock{}), Dial: rules,
		Fence: &wire.Fence{Lead: l.renewer.options.Lead},
	})
	if err != nil {
		return err
	}
	defer connection.Close()
	return do(ctx, connection.Config(), &http.Client{Transport: connection.Config().Transport})
}

// check looks at the beginning whether the token can be renewed, so that somebody can grant the right in good time.
func (l *login) check(ctx context.Context) {
	l.mu.Lock()
	unused := l.resting != "" || !l.current.renewable() || !l.current.renewed.IsZero()
	l.mu.Unlock()
	now := l.renewer.options.Clock.Now()
	if unused || l.plan.failures > 0 || now.Before(l.plan.check) {
		return
	}
	allowed, err := l.mayRenew(ctx)
	l.plan.check, l.plan.problem = now.Add(longest), ""
	switch {
	case err != nil:
		l.plan.check = now.Add(recheck) // The connection reports the problem.
	case !allowed:
		l.plan.check, l.plan.problem = now.Add(recheck), notAllowed(l.target, l.original)
	}
}

// failed plans the next attempt after one that failed.
func (l *login) failed(err error) {
	problem := describe(err, l.target, l.original)
	if problem != l.plan.problem {
		l.renewer.options.Logger.Info("Cannot renew a token", "target", l.name(), "reason", problem)
	}
	l.plan.problem = problem
	pause := pauseAfter(l.plan.failures, l.plan.of.life(), apierrors.IsForbidden(err))
	l.plan.failures++
	pause += time.Duration(float64(pause) * 0.2 * l.renewer.options.Jitter())
	l.plan.renewal = l.renewer.options.Clock.Now().Add(pause)
}

// pauseAfter returns the pause after failed attempts. Nobody grants a right within seconds, so a refusal costs a longer
// one.
func pauseAfter(failures int, life time.Duration, forbidden bool) time.Duration {
	if forbidden {
		return min(max(life/20, interval), time.Hour)
	}
	pause := retry << min(failures, 10)
	return min(pause, max(life/20, retry), 5*time.Minute)
}

func notAllowed(target types.NamespacedName, of credential) string {
	return fmt.Sprintf("the target does not let service account %s make tokens for itself: run %s, "+
		"or grant it create on serviceaccounts/token by name", of.account, targetkind.ConnectCommand(target))
}

// describe says why a renewal failed, and what to do. It has nothing that differs from one attempt to the next.
func describe(err error, target types.NamespacedName, of credential) string {
	var location *url.Error
	if errors.As(err, &location) {
		err = location.Err
	}
	var network net.Error
	var address *wire.AddressError
	var operation *net.OpError
	var answer apierrors.APIStatus
	switch {
	case apierrors.IsForbidden(err):
		return notAllowed(target, of) + " (" + wire.Shorten(err.Error(), maxText) + ")"
	case apierrors.IsUnauthorized(err):
		return "the target does not accept the token any more: run " + targetkind.ConnectCommand(target, "--renew")
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("the target has no service account %s any more: run %s", of.account,
			targetkind.ConnectCommand(target))
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "the target did not answer in time"
	case errors.As(err, &address):
		return address.Error()
	case errors.As(err, &operation):
		return "the target does not answer: " + wire.Shorten(operation.Op+": "+operation.Err.Error(), maxText)
	case errors.As(err, &answer):
		return fmt.Sprintf("the target answers with the status %d", answer.Status().Code)
	}
	return "the target did not make a token: " + wire.Shorten(err.Error(), maxText)
}
