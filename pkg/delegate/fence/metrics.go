package fence

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

// maxSource bounds the label source, which a source writes.
const maxSource = 80

// metrics are used by one goroutine.
type metrics struct {
	silent *prometheus.GaugeVec
	shown  sets.Set[string]
}

func newMetrics() *metrics {
	return &metrics{silent: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "multicluster_scheduler_source_silent_seconds",
		Help: "For how long this cluster has not heard of a source that has a Lease here, by its cluster ID.",
	}, []string{"source"})}
}

// register registers the metrics with the manager's. If several managers share a process, as in tests, only the metrics
// of the first one are shown.
func (m *metrics) register() error {
	err := ctrlmetrics.Registry.Register(m.silent)
	if already := (prometheus.AlreadyRegisteredError{}); errors.As(err, &already) {
		return nil
	}
	return err
}

// set shows for how long sources have been silent. Those that are not in the map are not shown any more.
func (m *metrics) set(silent map[string]time.Duration) {
	shown := sets.New[string]()
	for source, d := range silent {
		name := wire.Shorten(source, maxSource)
		m.silent.WithLabelValues(name).Set(d.Seconds())
		shown.Insert(name)
	}
	for name := range m.shown.Difference(shown) {
		m.silent.DeleteLabelValues(name)
	}
	m.shown = shown
}
