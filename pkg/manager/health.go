package manager

import (
	"errors"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// health adds the checks of /healthz and /readyz. Each role has a webhook.
func (w *wiring) health(serving certificate) error {
	serves := w.mgr.GetWebhookServer().StartedChecker()
	return errors.Join(
		w.mgr.AddHealthzCheck("webhook", healthy(serving, serves)),
		w.mgr.AddReadyzCheck("webhook", serves),
		w.mgr.AddReadyzCheck("certificate", logged(serving.ready, w.mgr.GetLogger().WithName("readyz"))),
	)
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
