package chaperon

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Values of the label result.
const (
	resultCreated = "created"
	resultRemade  = "remade"
	resultRefused = "refused"
	resultLost    = "lost"
	resultFenced  = "fenced"
)

type metrics struct {
	delegates *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{delegates: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "multicluster_scheduler",
		Name:      "delegates_total",
		Help: "Delegate pods by what became of them in this target cluster: created, remade after a loss, " +
			"refused, lost, fenced.",
	}, []string{"result"})}
	// The first delegate of a result must be an increase, and not the beginning of a series.
	for _, result := range []string{resultCreated, resultRemade, resultRefused, resultLost, resultFenced} {
		m.delegates.WithLabelValues(result).Add(0)
	}
	return m
}

// register registers the metrics with the manager's. If several managers share a process, as in tests, only the metrics
// of the first one are shown.
func (m *metrics) register() error {
	err := ctrlmetrics.Registry.Register(m.delegates)
	if already := (prometheus.AlreadyRegisteredError{}); errors.As(err, &already) {
		return nil
	}
	return err
}
