package target

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

type metrics struct {
	connected  *prometheus.GaugeVec
	overBudget *prometheus.GaugeVec
	silent     *prometheus.GaugeVec
}

func newMetrics() *metrics {
	return &metrics{
		connected: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "multicluster_scheduler_target_connected",
			Help: "Whether the target cluster answers with the rights that this cluster needs: 1 or 0.",
		}, []string{"target"}),
		overBudget: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "multicluster_scheduler_target_over_budget",
			Help: "Whether the target is disconnected because it costs this cluster more than it may: 1 or 0.",
		}, []string{"target"}),
		silent: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "multicluster_scheduler_target_silent",
			Help: "Whether the target's manager has stopped renewing its Lease, so that no new pods go there: 1 or 0.",
		}, []string{"target"}),
	}
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	return errors.Join(
		registerer.Register(m.connected), registerer.Register(m.overBudget), registerer.Register(m.silent),
	)
}

// set sets the metrics of a target to the condition Connected.
func (m *metrics) set(target types.NamespacedName, condition metav1.Condition) {
	name := targetkind.Name(target)
	m.connected.WithLabelValues(name).Set(number(condition.Status == metav1.ConditionTrue))
	m.overBudget.WithLabelValues(name).Set(number(condition.Reason == v1alpha1.ReasonOverBudget))
}

// setAwake sets the metric of a target to the condition Awake.
func (m *metrics) setAwake(target types.NamespacedName, condition metav1.Condition) {
	m.silent.WithLabelValues(targetkind.Name(target)).Set(number(condition.Status == metav1.ConditionFalse))
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func (m *metrics) forgetTarget(target types.NamespacedName) {
	m.connected.DeleteLabelValues(targetkind.Name(target))
	m.overBudget.DeleteLabelValues(targetkind.Name(target))
	m.silent.DeleteLabelValues(targetkind.Name(target))
}
