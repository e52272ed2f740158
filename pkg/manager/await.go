package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// askAgain is how often a manager that starts asks an API server that does not answer.
const askAgain = 2 * time.Second

// await calls ask until it succeeds, but not before the pause is over. Meanwhile it answers the probes of the kubelet:
// the process is alive, and not ready. So the kubelet does not restart a manager that only waits. The error is that of
// ctx, or of the address.
func await(
	ctx context.Context, address string, pause time.Duration, log logr.Logger, ask func(context.Context) error,
) error {
	stop, err := answerProbes(ctx, address)
	if err != nil {
		return err
	}
	defer stop()
	if pause > 0 {
		log.Info("Starting again after a failure, following a pause", "pause", pause.String())
	}
	select {
	case <-clock.RealClock{}.After(pause):
	case <-ctx.Done():
		return ctx.Err()
	}
	last := ""
	return wait.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
		err := ask(ctx)
		if err != nil && err.Error() != last {
			last = err.Error()
			log.Info("Waiting for the API server of this cluster", "reason", last)
		}
		return err == nil, nil
	})
}

// answerProbes answers /healthz with 200, and everything else with 503, until stop is called. The address is free
// again after that.
func answerProbes(ctx context.Context, address string) (stop func(), err error) {
	if address == "" || address == "0" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for probes: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "waiting for the API server of this cluster", http.StatusServiceUnavailable)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: callTimeout}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	return func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			logr.FromContextOrDiscard(ctx).Error(err, "Answering probes failed")
		}
	}, nil
}
