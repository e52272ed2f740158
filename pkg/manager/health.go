package manager

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// health adds the checks of /healthz and /readyz. Each role has a webhook.
func (w *wiring) health(serving certificate) error {
	serves, log := w.mgr.GetWebhookServer().StartedChecker(), w.mgr.GetLogger().WithName("readyz")
	return errors.Join(
		w.mgr.Add(w.caches),
		w.mgr.AddHealthzCheck("webhook", healthy(serving, serves)),
		w.mgr.AddReadyzCheck("webhook", serves),
		w.mgr.AddReadyzCheck("certificate", logged(serving.ready, log)),
		w.mgr.AddReadyzCheck("caches", logged(w.caches.check, log)),
	)
}

// filled is closed once the manager's caches are filled. Before that, no part runs that needs them, and an update must
// not end the replica that leads.
type filled chan struct{}

// Start is called on every replica, as soon as the caches are filled.
func (f filled) Start(context.Context) error { close(f); return nil }

// NeedLeaderElection returns false.
func (filled) NeedLeaderElection() bool { return false }

// check returns an error until the caches are filled. It ignores the request.
func (f filled) check(*http.Request) error {
	select {
	case <-f:
		return nil
	default:
		return errors.New("the caches are not filled: it has not listed all that it needs. If a right is missing, " +
			"the log says which")
	}
}

// healthy returns the check that the process does not need a restart: it responds, and its webhook serves. A missing
// certificate makes the process unready but not unhealthy, so that it goes on placing pods.
func healthy(serving certificate, serves healthz.Checker) healthz.Checker {
	return func(request *http.Request) error {
		if serving.missing() != nil {
			return nil //nolint:nilerr // see above
		}
		return serves(request)
	}
}

// logged returns the check, which logs each new reason why it fails. /readyz does not show reasons, and
// controller-runtime logs them for debugging only.
func logged(check healthz.Checker, log logr.Logger) healthz.Checker {
	var mu sync.Mutex // guards last
	var last string
	return func(request *http.Request) error {
		err := check(request)
		reason := ""
		if err != nil {
			reason = err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		if reason != last && reason != "" {
			log.Info("The manager is not ready", "reason", reason)
		}
		last = reason
		return err
	}
}
