package manager

import (
	"fmt"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/token"
)

// renewTokens adds the renewer of the tokens with which targets are connected.
func (w *wiring) renewTokens() error {
	clientset, err := kubernetes.NewForConfig(w.mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	w.tokens, err = token.New(token.Options{
		Client:    w.mgr.GetClient(),
		APIReader: w.mgr.GetAPIReader(),
		Secrets:   clientset,
		Secret:    types.NamespacedName{Namespace: w.pod.Namespace, Name: w.config.Tokens.SecretName},
		Lead:      w.lead,
		Clock:     w.clock,
		Jitter:    rand.Float64,
		Recorder:  w.mgr.GetEventRecorder("multicluster-tokens"),
		Logger:    w.mgr.GetLogger().WithName("tokens"),
		Metrics:   metrics.Registry,
	})
	if err != nil {
		return err
	}
	return w.mgr.Add(w.tokens)
}
