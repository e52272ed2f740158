package target

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

type metrics struct {
	connected  *prometheus.GaugeVec
	overBudget *prometheus.GaugeVec
	silent     *prometheus.GaugeVec
	// unresponsive follows the condition Responsive.
	unresponsive *prometheus.GaugeVec
	// unusable says that the Secret cannot be used, whether or not the connection goes on.
	unusable *prometheus.GaugeVec
	// reason is 1 for the reason of the condition Connected. reasons has it by the names of targets.
	reason  *prometheus.GaugeVec
	reasons sync.Map
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
		unresponsive: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "multicluster_scheduler_target_unresponsive",
			Help: "Whether the target's API server is slow, throttles or fails, so that no new pods go there: 1 or 0.",
		}, []string{"target"}),
		unusable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "multicluster_scheduler_target_secret_unusable",
			Help: "Whether the target's Secret is gone or broken, so that a new leader cannot connect: 1 or 0.",
		}, []string{"target"}),
		reason: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "multicluster_scheduler_target_reason",
			Help: "The reason of the target's condition Connected: 1. Other reasons are absent.",
		}, []string{"target", "reason"}),
	}
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	return errors.Join(
		registerer.Register(m.connected), registerer.Register(m.overBudget), registerer.Register(m.silent),
		registerer.Register(m.unresponsive), registerer.Register(m.unusable), registerer.Register(m.reason),
	)
}

// set sets the metrics of a target to the condition Connected, and those that come with it.
func (m *metrics) set(target types.NamespacedName, condition metav1.Condition, others ...metav1.Condition) {
	name := targetkind.Name(target)
	m.connected.WithLabelValues(name).Set(number(condition.Status == metav1.ConditionTrue))
	m.overBudget.WithLabelValues(name).Set(number(condition.Reason == v1alpha1.ReasonOverBudget))
	m.unusable.WithLabelValues(name).Set(number(
		reportsSecret(condition) || meta.IsStatusConditionFalse(others, v1alpha1.ConditionSecretUsable)))
	if was, _ := m.reasons.Swap(name, condition.Reason); was != condition.Reason {
		m.reason.DeletePartialMatch(prometheus.Labels{"target": name})
	}
	m.reason.WithLabelValues(name, condition.Reason).Set(1)
}

// reportsSecret says whether a target is not connected because of its Secret.
func reportsSecret(connected metav1.Condition) bool {
	switch connected.Reason {
	case v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonSecretKeyNotFound, v1alpha1.ReasonInvalidKubeconfig:
		return true
	}
	return false
}

// setAwake sets the metric of a target to the condition Awake.
func (m *metrics) setAwake(target types.NamespacedName, condition metav1.Condition) {
	m.silent.WithLabelValues(targetkind.Name(target)).Set(number(condition.Status == metav1.ConditionFalse))
}

// setResponsive sets the metric of a target to the condition Responsive.
func (m *metrics) setResponsive(target types.NamespacedName, condition metav1.Condition) {
	m.unresponsive.WithLabelValues(targetkind.Name(target)).Set(number(condition.Status == metav1.ConditionFalse))
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func (m *metrics) forgetTarget(target types.NamespacedName) {
	name := targetkind.Name(target)
	m.connected.DeleteLabelValues(name)
	m.overBudget.DeleteLabelValues(name)
	m.silent.DeleteLabelValues(name)
	m.unresponsive.DeleteLabelValues(name)
	m.unusable.DeleteLabelValues(name)
	m.reason.DeletePartialMatch(prometheus.Labels{"target": name})
	m.reasons.Delete(name)
}
