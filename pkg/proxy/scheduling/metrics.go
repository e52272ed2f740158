package scheduling

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
)

type metrics struct {
	placements *prometheus.HistogramVec
}

func newMetrics() *metrics {
	return &metrics{placements: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "multicluster_scheduler",
		Name:      "placement_seconds",
		Help:      "How long targets took to answer for pods that were given to them, by target and outcome.",
		Buckets:   []float64{.01, .03, .1, .3, 1, 3, 10, 30, 60, 120, 300, 600},
	}, []string{"target", "outcome"})}
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	return registerer.Register(m.placements)
}

func (m *metrics) placed(target string, outcome diagnosis.Outcome, took time.Duration) {
	m.placements.WithLabelValues(target, string(outcome)).Observe(took.Seconds())
}
