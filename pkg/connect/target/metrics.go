package target

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

type metrics struct {
	connected *prometheus.GaugeVec
}

func newMetrics() *metrics {
	return &metrics{connected: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "multicluster_scheduler_target_connected",
		Help: "Whether the target cluster answers with the rights that this cluster needs: 1 or 0.",
	}, []string{"target"})}
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	return registerer.Register(m.connected)
}

func (m *metrics) setConnected(target types.NamespacedName, connected bool) {
	value := 0.0
	if connected {
		value = 1
	}
	m.connected.WithLabelValues(targetkind.Name(target)).Set(value)
}

func (m *metrics) forgetTarget(target types.NamespacedName) {
	m.connected.DeleteLabelValues(targetkind.Name(target))
}
